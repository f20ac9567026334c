// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// kind is what an event is about.
type kind string

const (
	eventLeads     kind = "leads"     // a member took the role
	eventCommitted kind = "committed" // the leader got the answer for a command
	eventRefused   kind = "refused"   // the broker refused a write of the member
	eventLost      kind = "lost"      // the leadership of the member ended
	eventExited    kind = "exited"    // the process of the member ended
)

// event is what a member tells the program, one JSON object a line.
type event struct {
	At      time.Time                 `json:"at"`
	Member  string                    `json:"member"`
	Kind    kind                      `json:"kind"`
	Token   coordination.FencingToken `json:"token"`
	Text    string                    `json:"text"`
	Command *command                  `json:"command,omitempty"`
}

// String is a line of the story.
func (e event) String() string {
	token := ""
	if e.Token != coordination.NoEpoch {
		token = e.Token.String()
	}
	line := fmt.Sprintf("%s  %-7s %-21s %s", e.At.Format("15:04:05.000"), e.Member, token, e.Text)
	return strings.TrimRight(line, " ")
}

// reportTo returns a function that writes events to the program.
func reportTo(w io.Writer) func(event) {
	var mu sync.Mutex
	encoder := json.NewEncoder(w)
	return func(e event) {
		mu.Lock()
		defer mu.Unlock()
		e.At = time.Now()
		_ = encoder.Encode(e) // the program is gone, and the member ends too
	}
}

// story prints what happens and keeps the members going.
type story struct {
	events       chan event
	members      map[string]*process // that run
	acknowledged []command
}

func newStory() *story { return &story{events: make(chan event), members: map[string]*process{}} }

// start starts a member and follows what it tells.
func (s *story) start(member, brokers, run string) error {
	p, err := startProcess(member, brokers, run)
	if err != nil {
		return err
	}
	s.members[member] = p
	go p.follow(member, s.events)
	return nil
}

// say prints a line about what the program does to a member.
func (s *story) say(member, format string, args ...any) {
	fmt.Println(event{At: time.Now(), Member: member, Token: coordination.NoEpoch, Text: fmt.Sprintf(format, args...)})
}

// leader waits until a leader other than before has got a number of commands
// committed, and returns its name.
func (s *story) leader(ctx context.Context, before string) (string, error) {
	e, err := s.await(ctx, "a leader commands", func(e event) bool {
		return e.Kind == eventCommitted && e.Member != before && e.Command.Number >= commandsPerTerm
	})
	return e.Member, err
}

// await prints events until one is the wanted, and returns it.
func (s *story) await(ctx context.Context, what string, wanted func(event) bool) (event, error) {
	for {
		select {
		case e := <-s.events:
			// Of the commands, these are enough to read.
			if e.Kind != eventCommitted || e.Command.Number == 1 || e.Command.Number == commandsPerTerm {
				fmt.Println(e)
			}
			if e.Kind == eventCommitted {
				s.acknowledged = append(s.acknowledged, *e.Command)
			}
			if e.Kind == eventExited {
				delete(s.members, e.Member)
			}
			if wanted(e) {
				return e, nil
			}
			if e.Kind == eventExited {
				return event{}, fmt.Errorf("%s ended: %s", e.Member, e.Text)
			}
		case <-ctx.Done():
			return event{}, fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		}
	}
}

// kill ends a member at once.
func (s *story) kill(ctx context.Context, member string) error {
	return s.finish(ctx, member, syscall.SIGKILL)
}

// stop lets a member resign and end.
func (s *story) stop(ctx context.Context, member string) error {
	p := s.members[member]
	if err := s.finish(ctx, member, syscall.SIGTERM); err != nil {
		return err
	}
	if !p.ProcessState.Success() {
		return fmt.Errorf("%s ended: %s", member, p.ProcessState)
	}
	return nil
}

func (s *story) finish(ctx context.Context, member string, signal syscall.Signal) error {
	if err := s.members[member].Process.Signal(signal); err != nil {
		return err
	}
	_, err := s.await(ctx, member+" ends", func(e event) bool { return e.Kind == eventExited && e.Member == member })
	return err
}

// end ends what still runs.
func (s *story) end() {
	for _, p := range s.members {
		_ = p.Process.Kill() // it may have ended by itself
	}
	for len(s.members) > 0 {
		if e := <-s.events; e.Kind == eventExited {
			delete(s.members, e.Member)
		}
	}
}
