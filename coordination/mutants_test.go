// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package coordination_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is one deliberate fault: a line of the package that says something
// else. The named tests have to notice.
type mutant struct {
	name     string
	file     string
	old, new string
	tests    string // a regular expression, as for go test -run
}

// TestMutants builds the package once for every mutant, with the changed file
// laid over the real one, and expects the named tests to fail.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			source, err := os.ReadFile(m.file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), m.old); n != 1 {
				t.Fatalf("%s holds the text to change %d times, want once:\n%s", m.file, n, m.old)
			}
			output, err := runMutant(t, m, strings.Replace(string(source), m.old, m.new, 1))
			switch {
			case err == nil:
				t.Errorf("the mutant survives %s", m.tests)
			case strings.Contains(output, "[build failed]"), strings.Contains(output, "[setup failed]"):
				t.Errorf("the mutant does not build:\n%s", output)
			case strings.Contains(output, "no tests to run"):
				t.Errorf("no test matches %s", m.tests)
			}
		})
	}
}

// runMutant runs the tests of a mutant.
func runMutant(t *testing.T, m mutant, source string) (output string, err error) {
	t.Helper()
	dir := t.TempDir()
	original, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(dir, "mutant.go")
	if err := os.WriteFile(changed, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-timeout=20s",
		"-overlay="+list, "-run", m.tests, ".", "-sim.seeds=400")
	text, err := command.CombinedOutput()
	if strings.Contains(string(text), "no tests to run") {
		return string(text), os.ErrNotExist
	}
	return string(text), err
}

var mutants = []mutant{
	{
		"compare the epoch alone", "token.go",
		"if order := cmp.Compare(t.producerID, other.producerID); order != 0 {", "if order := 0; order != 0 {",
		"TestTokenOrder",
	},
	{
		"absolute value instead of the mask", "partition.go",
		"return int(murmur2(role.name)&0x7fffffff) % partitions, nil",
		"h := int32(murmur2(role.name)); if h < 0 { h = -h }; return int(h) % partitions, nil",
		"TestRolePartitions",
	},
	{
		"partition by the record key", "partition.go",
		"return int(murmur2(role.name)&0x7fffffff) % partitions, nil",
		"return int(murmur2(string(EncodeKey(LeaseKey(role))))&0x7fffffff) % partitions, nil",
		"TestRoleTopicPartition",
	},
	{
		"no turn between renewal and resignation", "resign.go",
		"pass, err := l.take(write)", "pass, err := func() {}, error(nil)",
		"TestResignWaitsForTheRenewalInFlight",
	},
	{
		"no turn in a renewal", "renew.go",
		"pass, err := l.take(ctx)", "pass, err := func() {}, error(nil)",
		"TestResignWaitsForTheRenewalInFlight|TestRenewWaitsForItsTurn",
	},
	{
		"the renewal in flight is cancelled by a resignation", "renew.go",
		"result := make(chan error, 1)\n", "result := make(chan error, 1)\n\tgo func() { <-l.done; cancel() }()\n",
		"TestResignWaitsForTheRenewalInFlight",
	},
	{
		"no watchdog", "renew.go",
		"		case <-over:\n\t\t}\n", "		}\n",
		"TestHungRenewalEndsAtTheDeadline",
	},
	{
		"the expiry looks at a lease that was replaced", "renew.go",
		"renewed := l.held.Load()", "renewed := held",
		"TestExpiryFollowsTheRenewalOfTheCaller",
	},
	{
		"a hung renewal gets another bound after the expiry", "renew.go",
		"if renewed == held || patience == 0 {", "if patience == 0 {\n\t\t\tpatience = bound\n\t\t}\n\t\tif renewed == held {",
		"TestHungRenewalEndsWithTheReplacedLease",
	},
	{
		"expiry without an attempt", "renew.go",
		"if last.held == held && held.untilExpiry(l.elector.now()) == 0 {", "if held.untilExpiry(l.elector.now()) == 0 {",
		"TestPausedHolderRenewsBeforeItGivesUp",
	},
	{
		"no expiry after a failure", "renew.go",
		"if last.held == held && held.untilExpiry(l.elector.now()) == 0 {", "if false {",
		"TestExpiryEndsTheLeadership",
	},
	{
		"unbounded renewals", "renew.go",
		"ctx, cancel := l.elector.withTimeout(context.Background(), bound)", "ctx, cancel := context.WithCancel(context.Background())",
		"TestRenewalAttemptsAreBounded",
	},
	{
		"the first lease follows the caller's context", "acquire.go",
		"write, cancel := e.detached(ctx)", "write, cancel := context.WithCancel(ctx)",
		"TestCancelAfterTheMintResigns",
	},
	{
		"an acquisition that was cancelled keeps the role", "acquire.go",
		"if err := ctx.Err(); err != nil {\n\t\tif failed := l.Resign(ctx)", "if err := error(nil); err != nil {\n\t\tif failed := l.Resign(ctx)",
		"TestCancelAfterTheMintResigns",
	},
	{
		"no tombstone after a failed first lease", "acquire.go",
		"err = errors.Join(err, e.clearLease(clear, token))", "_ = clear",
		"TestTransportErrorsEndTheAcquisition",
	},
	{
		"no back-off", "state.go",
		"if c.fences < 2 {", "if c.fences < 1<<30 {",
		"TestRepeatedFencesBackOff",
	},
	{
		"back-off after the first fence", "state.go",
		"if c.fences < 2 {", "if c.fences < 1 {",
		"TestFencedChallengeIsRetriedWithoutTheClock",
	},
	{
		"back-off that does not grow", "state.go",
		"backoff = c.settings.poll << doublings", "backoff = c.settings.poll",
		"TestRepeatedFencesBackOff",
	},
	{
		"register again on read lag", "state.go",
		"if !c.registered || c.seen || r.ended.since(c.registeredAt) >= lag {", "if true {",
		"TestLaggingReadRegistersOnce",
	},
	{
		"never register again", "state.go",
		"if !c.registered || c.seen || r.ended.since(c.registeredAt) >= lag {", "if !c.registered || r.ended.since(c.registeredAt) >= lag {",
		"TestDeregisteredStandbyRegistersAgain",
	},
	{
		"a lost registration stays lost", "state.go",
		"if !c.registered || c.seen || r.ended.since(c.registeredAt) >= lag {", "if !c.registered || c.seen {",
		"TestLostRegistrationIsAppendedAgain",
	},
	{
		"no second look before a late mint", "state.go",
		"if c.reread || now.since(c.last.began) <= c.settings.poll {", "if true {",
		"TestStaleEvaluationIsRepeated",
	},
	{
		"challenge on an incomplete read", "state.go",
		"if r.complete {\n\t\tc.pinned = false", "if true {\n\t\tc.pinned = false",
		"TestIncompleteReadDelaysTheChallenge",
	},
	{
		"a hidden lease gets no time", "state.go",
		"grace = c.settings.lease.duration", "grace += 0",
		"TestIncompleteReadDelaysTheChallenge",
	},
	{
		"a duplicate goes unnoticed", "state.go",
		"if foreign && !c.identity.wary {", "if false {",
		"TestDuplicateMemberIsReported",
	},
	{
		"duplicates duel", "run.go",
		"e.identity.wary = e.identity.wary || errors.Is(err, ErrDuplicateMember)", "",
		"TestRunsWithOneMemberIDDoNotDuel",
	},
	{
		"anchor that moves with the clock", "evaluate.go",
		"challengeAt = addMillis(entry.RegisteredAt, extentMillis(config.ChallengeDelay(rank)))",
		"_ = entry\n\t\tchallengeAt = addMillis(nowMillis, extentMillis(config.ChallengeDelay(rank)))",
		"TestEvaluate",
	},
	{
		"the holder keeps its place in the ranks", "rank.go",
		"case !held || entry.Member != holder:", "default:",
		"TestRanks|Exhaustively",
	},
	{
		"the oldest record of a key wins", "fold.go",
		"if !b.lease.seen || record.Offset > b.lease.offset {", "if !b.lease.seen || record.Offset < b.lease.offset {",
		"TestNewestRecordOfAKeyWins",
	},
	{
		"a removed member leaves no trace", "fold.go",
		"if newest, seen := b.members[member]; !seen || record.Offset > newest.entry.Offset {",
		"if newest, seen := b.members[member]; !seen || newest.removed || record.Offset > newest.entry.Offset {",
		"TestTombstonesOfTheFold",
	},
	{
		"empty value instead of a tombstone", "elector.go",
		"_, err := e.putLease(ctx, OperationClearLease, token, nil)", "_, err := e.putLease(ctx, OperationClearLease, token, []byte{})",
		"TestResignClearsTheLeaseOnce",
	},
	{
		"the grant instant follows the clock back", "grant.go",
		"return max(now.wall, addMillis(g.timing.lease.GrantedAt, passed))", "_ = passed\n\treturn now.wall",
		"TestGrantInstantNeverMovesBack",
	},
	{
		"the grant instant stands still", "grant.go",
		"return max(now.wall, addMillis(g.timing.lease.GrantedAt, passed))", "_ = passed\n\treturn max(now.wall, g.timing.lease.GrantedAt)",
		"TestGrantInstantNeverMovesBack",
	},
	{
		"renewals by the wall clock alone", "grant.go",
		"max(0, wholeMillis(g.timing.config.renewInterval)-now.since(g.taken)),", "time.Duration(1<<62),",
		"TestHolderWhoseClockIsSetBack",
	},
	{
		"trust by the wall clock alone", "grant.go",
		"max(0, wholeMillis(g.timing.config.duration)-now.since(g.taken)),", "time.Duration(1<<62),",
		"TestTrustWindow",
	},
	{
		"a sighting does not expire a lease", "sighting.go",
		"return min(deadline, addMillis(now.wall, extentMillis(extent-now.since(s.first))))", "return deadline",
		"TestDeadHolderWithAFastClock",
	},
	{
		"a witnessed renewal does not count", "sighting.go",
		"if s.witnessed {", "if false {",
		"TestStandbyWithAFastClock",
	},
	{
		"a tolerance of none", "sighting.go",
		"addMillis(lease.Deadline, extentMillis(tolerance))", "lease.Deadline",
		"TestClockTolerance",
	},
	{
		"a registration in the future holds its member up", "state.go",
		"if c.entry.RegisteredAt > latest {", "if false {",
		"TestRegistrationInTheFuture",
	},
	{
		"resign before the end", "resign.go",
		"	l.end(\"resigned\", ErrNotHeld)\n", "	defer l.end(\"resigned\", ErrNotHeld)\n",
		"TestResignEndsBeforeItWrites|TestResignClearsTheLeaseOnce",
	},
	{
		"a failed resignation is forgotten", "resign.go",
		"if l.cleared || l.tried &&", "if l.cleared || l.tried ||",
		"TestFailedResignationCanBeRepeated",
	},
	{
		"a second tombstone", "resign.go",
		"	l.cleared = true\n", "",
		"TestResignClearsTheLeaseOnce|TestConcurrentUse",
	},
	{
		"a fence is forgotten", "renew.go",
		"if errors.Is(err, ErrFenced) || errors.Is(err, ErrTransportClosed) {", "if errors.Is(err, ErrTransportClosed) {",
		"TestFencedRenewalEndsTheLeadership",
	},
	{
		"the reason changes", "leadership.go",
		"first := l.reason == nil", "first := true",
		"TestFencedRenewalEndsTheLeadership|TestResignClearsTheLeaseOnce",
	},
	{
		"the token stands still", "leadership.go",
		"l.token.Store(&token)\n\t}", "}",
		"TestTrackedTokenMovesOn",
	},
	{
		"the superseded handle lives on", "renew.go",
		"case <-l.done:\n\tcase <-superseded:\n", "case <-l.done:\n\tcase <-make(chan struct{}):\n\t\t_ = superseded\n",
		"TestSupersededHandleEnds",
	},
	{
		"a device compares tokens", "device_guard.go",
		"case presented.Sequence < c.Sequence:", "case c.Token.Supersedes(presented.Token):",
		"TestDeviceAdmits|TestSimulatedElections",
	},
	{
		"a device forgets", "device_guard.go",
		"g.recorded, g.any = credential, true", "",
		"TestDeviceAdmits",
	},
	{
		"a device acts before it records", "device_guard.go",
		"if err := g.store.Save(ctx, credential); err != nil {", "g.recorded, g.any = credential, true\n\tif err := g.store.Save(ctx, credential); err != nil {",
		"TestDeviceRefusesWhatItCannotRecord",
	},
	{
		"a guarded write after the end", "guard.go",
		"	defer pass()\n\tif err := l.ended(); err != nil {\n\t\treturn err\n\t}\n", "	defer pass()\n",
		"TestGuardedWriteThatWaitedDoesNotOutliveTheEnd",
	},
	{
		"no end of a retry", "run.go",
		"case permanent(err):", "case false:",
		"TestRunReturnsWhatARetryDoesNotSettle",
	},
	{
		"resign before the work is done", "run.go",
		"worked := callbacks.OnAcquired(work, l)", "go func() { <-ctx.Done(); l.Resign(context.Background()) }()\n\tworked := callbacks.OnAcquired(work, l)",
		"TestRunFinishesTheWork",
	},
}
