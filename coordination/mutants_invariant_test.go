// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package coordination_test

// invariantMutants are faults that simulated elections find, of the package and
// of the simulated cluster, one or two for each invariant.
var invariantMutants = []mutant{
	{
		name: "an old epoch writes into a new transaction", file: "sim_cluster_test.go",
		old:   "\tif c.token(state) != token {\n\t\treturn -1, errSimFenced\n\t}\n",
		new:   "\tif c.token(state) != token && part != c.check.world.at {\n\t\treturn -1, errSimFenced\n\t}\n",
		tests: "TestSimulatedElections",
		says:  "leases in the order of the mints", seeds: 400, alone: true,
	},
	{
		name: "a mint leaves the open transaction to its successor", file: "sim_cluster_test.go",
		old:   "\tcase state.open:\n\t\tc.end(role, state, false, c.now())\n\t\tc.advance(role, state, c.now())\n\t\tstate.owned = false\n\t\tc.check.bumped(role, c.now())\n",
		new:   "\tcase state.open && len(state.parts) == 1 && state.parts[c.check.world.at]:\n\t\tc.advance(role, state, c.now())\n\t\tstate.owned = false\n\t\tc.check.bumped(role, c.now())\n\tcase state.open:\n\t\tc.end(role, state, false, c.now())\n\t\tc.advance(role, state, c.now())\n\t\tstate.owned = false\n\t\tc.check.bumped(role, c.now())\n",
		tests: "TestSimulatedElections",
		says:  "no commit after a later mint", alone: true,
	},
	{
		name: "a device remembers nothing", file: "device_guard.go",
		old:   "\tg.recorded, g.any = credential, true\n",
		new:   "",
		tests: "TestSimulatedElections",
		says:  "no stale command", alone: true,
	},
	{
		name: "a lease without an answer is a leadership", file: "acquire.go",
		old:   "\t\te.release(token)\n\t\treturn nil, err\n",
		new:   "\t\te.release(token)\n\t\tif !errors.Is(err, ErrFenced) {\n\t\t\treturn newLeadership(e, token, first, 1<<40), nil\n\t\t}\n\t\treturn nil, err\n",
		tests: "TestSimulatedElections",
		says:  "a lease before the leadership",
	},
	{
		name: "every end has a reason of its own", file: "leadership.go",
		old:   "\tif first {\n\t\tl.reason = reason\n",
		new:   "\tl.reason = reason\n\tif first {\n",
		tests: "TestSimulatedElections",
		says:  "one reason for the end", alone: true,
	},
	{
		name: "a hung renewal is waited for", file: "renew.go",
		old:   "\t\tover, stop := l.elector.limit(patience)\n",
		new:   "\t\tover, stop := l.elector.limit(1 << 62)\n",
		tests: "TestSimulatedElections",
		says:  "a failed holder ends in time", alone: true,
	},
	{
		name: "a resigned handle clears again", file: "resign.go",
		old:   "\tl.cleared = true\n",
		new:   "",
		tests: "TestSimulatedElections",
		says:  "silence after the resignation", alone: true,
	},
	{
		name: "a challenge without a reason", file: "evaluate.go",
		old:   "\tif nowMillis >= challengeAt {\n",
		new:   "\tif nowMillis >= challengeAt || nowMillis/1000%16 == 15 {\n",
		tests: "TestSimulatedElections",
		says:  "no mint beside a holder", alone: true, steady: true,
	},
	{
		name: "a mint in any state", file: "elector.go",
		old:   "refused = e.confirm(ctx, c)",
		new:   "refused = nil",
		tests: "TestSimulatedElections",
		says:  "no mint on an old state",
	},
	{
		name: "a standby that waits from now on", file: "evaluate.go",
		old:   "\t\tchallengeAt = timing.ChallengeAt(rank)\n",
		new:   "\t\tchallengeAt = max(timing.ChallengeAt(rank), addMillis(nowMillis, extentMillis(config.ChallengeDelay(rank))))\n",
		tests: "TestSimulatedElections",
		says:  "a leader in time", alone: true,
	},
	{
		name: "a registration for every acquisition", file: "state.go",
		old:   "if present && (c.registered || !c.settings.freshRegistration) {",
		new:   "if present && c.registered {",
		tests: "TestSimulatedElections",
		says:  "one registration", alone: true,
	},
	{
		name: "a token that stands still", file: "leadership.go",
		old:   "\t\tl.token.Store(&token)\n\t}",
		new:   "\t}",
		tests: "TestSimulatedElections",
		says:  "the token of the coordinator", alone: true,
	},
	{
		name: "every token is authoritative", file: "status.go",
		old:   "return s.Held && s.Token == token }",
		new:   "_ = token; return s.Held }",
		tests: "TestSimulatedElections",
		says:  "authoritative means newest", alone: true,
	},
	{
		name: "a read out of order", file: "sim_process_test.go",
		old:   "\tif err == nil {\n\t\tp.world.check.returned(at, records)\n",
		new:   "\tif err == nil {\n\t\tfor i, j := 0, len(records)-1; i < j; i, j = i+1, j-1 {\n\t\t\trecords[i], records[j] = records[j], records[i]\n\t\t}\n\t\tp.world.check.returned(at, records)\n",
		tests: "TestSimulatedElections",
		says:  "a read is a committed prefix", alone: true,
	},
	{
		name: "sequences that fall", file: "leadership.go",
		old:   "\tl.offset.Store(offset)\n",
		new:   "\tl.offset.Store(-1 - offset)\n",
		tests: "TestSimulatedElections",
		says:  "sequences grow", alone: true,
	},
	{
		name: "a grant that follows the clock back", file: "grant.go",
		old:   "\treturn max(now.wall, addMillis(g.timing.lease.GrantedAt, passed))",
		new:   "\t_ = passed\n\treturn now.wall",
		tests: "TestSimulatedElections",
		says:  "the lease moves forward", alone: true,
	},
	{
		name: "a renewal that is not remembered", file: "renew.go",
		old:   "\tl.held.Store(l.sent)\n",
		new:   "\tif l.sent.timing.lease.GrantedAt%2 == 0 {\n\t\tl.held.Store(l.sent)\n\t}\n",
		tests: "TestSimulatedElections",
		says:  "the lease moves forward",
	},
	{
		name: "a goroutine that stays", file: "renew.go",
		old:   "\tselect {\n\tcase <-l.done:\n\tcase <-superseded:\n",
		new:   "\tselect {\n\tcase <-superseded:\n",
		tests: "TestSimulatedElections",
		says:  "blocked goroutines remain", alone: true,
	},
	{
		name: "a poll without a wait", file: "state.go",
		old:   "\treturn max(min(poll, due), time.Millisecond)\n",
		new:   "\t_ = poll\n\treturn time.Millisecond\n",
		tests: "TestSimulatedElections",
		says:  "no hot loop", alone: true,
	},
	{
		name: "a fenced write counts as written", file: "guard.go",
		old:   "\tl.track()\n\tif err != nil {\n",
		new:   "\tl.track()\n\tif err != nil && !errors.Is(err, ErrFenced) {\n",
		tests: "TestSimulatedElections",
		says:  "linearizable writes", alone: true,
	},
}
