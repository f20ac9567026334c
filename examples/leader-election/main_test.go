// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/coordination"
	"github.com/krabka-io/krabka-streams-go/examples/internal/program"
)

func TestMain(m *testing.M) { program.Main(m) }

// checkStory runs the program and expects three leaders, one after the other.
func checkStory(t *testing.T, args ...string) {
	t.Helper()
	got := program.Run(t, args...)
	if got.Code != 0 || got.Errors != "" {
		t.Errorf("exit code %d with errors %q, want 0 and none", got.Code, got.Errors)
	}
	const line = `^\d\d:\d\d:\d\d\.\d{3} +`
	got.Output.Next(line + `three members compete for role controller-\d+ at `)
	var members, terms []string
	for _, removal := range []string{"is killed with SIGKILL", "is stopped with SIGSTOP", ""} {
		tenth := got.Output.Next(line + `(node-[abc]) +(\d+:\d+) +command 10 is committed$`)
		member, token := tenth[0], tenth[1]
		if slices.Contains(members, member) {
			t.Errorf("leaders %v and %s, want three members", members, member)
		}
		members, terms = append(members, member), append(terms, member+` +token `+token)
		if removal != "" {
			got.Output.Next(line + member + ` +` + removal + `$`)
		}
	}
	got.Output.Next(line + members[1] + ` +goes on with SIGCONT`)
	got.Output.Next(line + members[1] + ` +\d+:\d+ +write (lease|records) refused with (INVALID_PRODUCER_EPOCH|PRODUCER_FENCED): another member (leads by now|challenged at the same time, and its epoch is the newer one)$`)
	got.Output.Next(line + members[1] + ` +exit status 0$`)
	got.Output.Next(line + members[2] + ` +exit status 0$`)
	sum, before := 0, -1
	for _, term := range terms {
		numbers := got.Output.Next(`^  ` + term + `, sequence (\d+): (\d+) commands$`)
		sequence, commands := number(t, numbers[0]), number(t, numbers[1])
		if commands < commandsPerTerm || sequence <= before {
			t.Errorf("%s: %d commands, sequence %d behind %d", term, commands, sequence, before)
		}
		sum, before = sum+commands, sequence
	}
	// A broker that starts may let a leader down before its tenth command.
	end := got.Output.Next(`^(\d+) commands of (\d+) leaderships are in order, and every acknowledged one is there$`)
	if total, leaderships := number(t, end[0]), number(t, end[1]); total < sum || leaderships < 3 {
		t.Errorf("%d commands of %d leaderships, want %d or more of 3 or more", total, leaderships, sum)
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEveryLeaderIsReplaced(t *testing.T) { checkStory(t) }

func TestLateCommandFailsTheRun(t *testing.T) {
	brokers, stop, err := embed()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	// A stranger repeats the first command once the second leader commands, as
	// a leader without a guard would.
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.ConsumeRegex(), kgo.ConsumeTopics("^commands-"),
		kgo.MetadataMinAge(program.Glance), kgo.MetadataMaxAge(program.Glance))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	added := make(chan error, 1)
	go func() {
		var first *kgo.Record
		var early, c command
		for {
			fetches := client.PollFetches(t.Context())
			if err := fetches.Err(); err != nil {
				added <- err
				return
			}
			for _, record := range fetches.Records() {
				if err := json.Unmarshal(record.Value, &c); err != nil {
					added <- err
					return
				}
				if first == nil {
					first, early = record, c
				}
				if c.Member != early.Member {
					added <- client.ProduceSync(t.Context(), &kgo.Record{Topic: first.Topic, Value: first.Value}).FirstErr()
					return
				}
			}
		}
	}()
	got := program.Run(t, "-brokers", brokers)
	if err := <-added; err != nil {
		t.Fatal(err)
	}
	const want = "leader-election: command 1 of "
	if got.Code != 1 || !strings.HasPrefix(got.Errors, want) || !strings.Contains(got.Errors, "stands behind one of its successor") {
		t.Errorf("exit code %d with errors %q, want 1 and %q ... behind its successor", got.Code, got.Errors, want)
	}
}

func TestCommandsAreChecked(t *testing.T) {
	issue := func(member string, sequence int64, epoch int16, number int) command {
		token, err := coordination.NewFencingToken(7, epoch)
		if err != nil {
			t.Fatal(err)
		}
		return command{Member: member, Number: number, Credential: coordination.Credential{Token: token, Sequence: sequence}}
	}
	a1, a2, b1 := issue("a", 10, 0, 1), issue("a", 10, 0, 2), issue("b", 20, 1, 1)
	tests := []struct {
		name              string
		log, acknowledged []command
		terms             []string
		err               string
	}{
		{
			name: "one leader after the other, and a command that nobody heard of",
			log:  []command{a1, a2, b1}, acknowledged: []command{a1, b1},
			terms: []string{"a       token 7:0, sequence 10: 2 commands", "b       token 7:1, sequence 20: 1 commands"},
		},
		{
			name:  "a token that moves on within a leadership, and a number that was given up",
			log:   []command{a1, issue("a", 10, 1, 3)},
			terms: []string{"a       token 7:0, sequence 10: 2 commands"},
		},
		{
			name:  "a late command",
			log:   []command{a1, b1, a2},
			terms: []string{"a       token 7:0, sequence 10: 1 commands", "b       token 7:1, sequence 20: 1 commands"},
			err:   "command 2 of a, sequence 10, stands behind one of its successor b, sequence 20",
		},
		{
			name:  "a command that comes twice",
			log:   []command{a1, a1},
			terms: []string{"a       token 7:0, sequence 10: 1 commands"},
			err:   "sequence 10: command 1 of a with token 7:0 stands behind command 1 of a with token 7:0",
		},
		{
			name:  "a token that moves back",
			log:   []command{issue("a", 10, 1, 1), a2},
			terms: []string{"a       token 7:1, sequence 10: 1 commands"},
			err:   "sequence 10: command 2 of a with token 7:0 stands behind command 1 of a with token 7:1",
		},
		{
			name:  "two members with one sequence",
			log:   []command{a1, issue("b", 10, 0, 2)},
			terms: []string{"a       token 7:0, sequence 10: 1 commands"},
			err:   "sequence 10: command 2 of b with token 7:0 stands behind command 1 of a with token 7:0",
		},
		{
			name: "an acknowledged command that is lost",
			log:  []command{a1}, acknowledged: []command{a1, a2},
			terms: []string{"a       token 7:0, sequence 10: 1 commands"},
			err:   "command 2 of a, sequence 10, was acknowledged and is not in the log",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			terms, err := checkCommands(tt.log, tt.acknowledged)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.err {
				t.Errorf("checkCommands = %q, want %q", got, tt.err)
			}
			var lines []string
			for _, term := range terms {
				lines = append(lines, term.String())
			}
			if diff := cmp.Diff(tt.terms, lines); diff != "" {
				t.Errorf("leaderships mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
