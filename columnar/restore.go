// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"slices"
)

var errNoBarrierGroup = errors.New("restoring to a cut requires a barrier group")

// RestoreToEpoch takes every partition of the runner back, or forward, to a
// barrier: state, inputs and committed offsets. It is the one operation that
// moves commits backwards; what was produced behind the cut is produced again.
// Before the first assignment, it acts on every partition of the cut, and seeks
// and commits when the partitions arrive.
//
// Everything is loaded before anything changes. Errors: a [*MissingCutError]
// when the epoch has no complete cut, a [*MissingSnapshotError] when the store
// does not hold it for every partition, a [*DamagedSnapshotError], a
// [*SnapshotMismatchError]. If seeking or committing fails, the state stands at
// the cut nonetheless, and the next rounds go on from there. The caller owns the
// cut.
func (r *GroupRunner) RestoreToEpoch(ctx context.Context, epoch int64) (*BarrierCut, error) {
	return r.restoreCut(ctx, func(cuts []publishedCut) (*BarrierCut, *loadedCut, error) {
		at := slices.IndexFunc(cuts, func(cut publishedCut) bool { return cut.Epoch == epoch })
		if at < 0 {
			return nil, nil, &MissingCutError{Group: r.settings.barrier, Epoch: epoch, Available: epochsOf(cuts)}
		}
		cut := &cuts[at].BarrierCut
		loaded, err := r.loadCut(ctx, cut, false)
		var missing *MissingSnapshotError
		if errors.As(err, &missing) && missing.Available == nil {
			missing.Available = r.probeEpochs(cuts, cut)
		}
		return cut, loaded, err
	})
}

// RestoreToLatestCut is [GroupRunner.RestoreToEpoch] to the newest epoch that has
// a complete cut, a snapshot of every partition, and offsets that the group has
// committed. Damaged snapshots are passed over, unless [WithStrictSnapshots] is
// set. After a crash it is not needed: a runner recovers by itself, without
// producing anything again.
func (r *GroupRunner) RestoreToLatestCut(ctx context.Context) (*BarrierCut, error) {
	return r.restoreCut(ctx, func(cuts []publishedCut) (*BarrierCut, *loadedCut, error) {
		if len(cuts) == 0 {
			return nil, nil, &MissingCutError{Group: r.settings.barrier, Epoch: NoEpoch}
		}
		var cause error
		for _, cut := range slices.Backward(cuts) {
			loaded, err := r.loadCut(ctx, &cut.BarrierCut, true)
			if err == nil {
				return &cut.BarrierCut, loaded, nil
			}
			var damaged *DamagedSnapshotError
			if errors.As(err, &damaged) {
				if err := r.passOver(err); err != nil {
					return nil, nil, err
				}
			} else if !errors.As(err, new(*MissingSnapshotError)) {
				return nil, nil, err
			}
			cause = firstError(cause, err)
		}
		return nil, nil, &MissingSnapshotError{Epoch: NoEpoch, Cause: cause}
	})
}

// restoreCut restores what choose picks from the complete cuts.
func (r *GroupRunner) restoreCut(ctx context.Context, choose func([]publishedCut) (*BarrierCut, *loadedCut, error)) (*BarrierCut, error) {
	if r.settings.cuts == nil {
		return nil, errNoBarrierGroup
	}
	if err := r.acquire(ctx); err != nil {
		return nil, err
	}
	defer r.release()
	if r.terminal != nil {
		return nil, r.terminal
	}
	if err := r.settle(r.settleTransaction(ctx)); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.applyEvents(ctx)
	r.mu.Unlock()
	if err := r.awaitAllSaved(ctx); err != nil {
		return nil, err
	}
	cuts, err := r.settings.cuts.usable(ctx, r.settings.barrier)
	if err != nil {
		return nil, err
	}
	cut, loaded, err := choose(cuts)
	if err != nil {
		return nil, err
	}
	result := cut.clone()
	if err := r.restoreLoaded(ctx, cut, loaded); err != nil {
		return &result, r.settle(err)
	}
	r.alignment.cuts = nil
	r.setPending(nil)
	return &result, r.settle(r.commitRestored(ctx))
}
