// SPDX-License-Identifier: Apache-2.0

package columnar

// advanceAll is what a round that advances time does instead of polling.
func (r *GroupRunner) advanceAll(rd *round) error {
	rd.metadata = r.consumer.GroupMetadata()
	if err := r.takeStand(rd.ctx); err != nil {
		return err
	}
	for _, p := range r.ordered() {
		if p.live() && r.involved(p) && !p.waits() && (rd.only == nil || rd.only == p) {
			rd.work = append(rd.work, &partitionWork{logicalPartition: p})
		}
	}
	for _, work := range rd.work {
		outputs, err := r.topology.advancePartition(work.number, *rd.advance)
		if err != nil {
			return err
		}
		work.metrics.OutputRecords = int64(len(outputs))
		rd.outputs = append(rd.outputs, outputs...)
	}
	rd.offsets = map[TopicPartition]int64{}
	if rd.producer != nil && len(rd.outputs) > 0 {
		r.restate(rd)
	}
	return r.finish(rd)
}
