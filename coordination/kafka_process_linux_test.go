// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/krabka-io/krabka-streams-go/coordination"
	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

// rivalProcess is a rival in a process of its own, which may be killed and
// paused at any time.
type rivalProcess struct {
	cmd     *exec.Cmd
	orders  *json.Encoder
	answers *json.Decoder
	close   func()
}

func startRival(tb testing.TB, config rivalConfig) *rivalProcess {
	tb.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		tb.Fatal(err)
	}
	cmd := kafkatest.Program("rival", rivalVariable+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it may be paused when the test dies
	in, out := kafkatest.Converse(tb, cmd)
	return &rivalProcess{cmd: cmd, orders: json.NewEncoder(in), answers: json.NewDecoder(out), close: func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says that it was killed
	}}
}

// send sends an order without a wait for its answer.
func (p *rivalProcess) send(order rivalOrder) error { return p.orders.Encode(order) }

// receive waits for the next answer. It fails when the process has ended.
func (p *rivalProcess) receive() (rivalAnswer, error) {
	var a rivalAnswer
	err := p.answers.Decode(&a)
	return a, err
}

func (p *rivalProcess) do(order rivalOrder) (rivalAnswer, error) {
	if err := p.send(order); err != nil {
		return rivalAnswer{}, err
	}
	return p.receive()
}

// must sends an order that has to succeed.
func (p *rivalProcess) must(tb testing.TB, order rivalOrder) rivalAnswer {
	tb.Helper()
	order.Timeout = patience
	a, err := p.do(order)
	if err == nil && a.Outcome != accepted {
		err = fmt.Errorf("it answers %+v", a)
	}
	if err != nil {
		tb.Fatalf("order %+v to a process: %v", order, err)
	}
	return a
}

// mortal is a rival in a process of its own that is killed or paused now and
// then, and started again.
type mortal struct {
	t       *testing.T
	config  rivalConfig
	random  *rand.Rand
	process *rivalProcess
}

func startMortal(t *testing.T, _ *stage, random *rand.Rand, config rivalConfig) contestant {
	return &mortal{t: t, config: config, random: random}
}

func (m *mortal) do(order rivalOrder) (rivalAnswer, error) {
	if m.process == nil {
		m.process = startRival(m.t, m.config)
	}
	process := m.process.cmd.Process
	after := time.Duration(m.random.IntN(30)) * time.Millisecond
	switch m.random.IntN(10) {
	case 0:
		time.AfterFunc(after, func() { _ = process.Kill() }) // it may have ended
	case 1, 2:
		length := time.Duration(m.random.Int64N(int64(2 * m.config.Lease)))
		time.AfterFunc(after, func() {
			_ = process.Signal(syscall.SIGSTOP)
			time.AfterFunc(length, func() { _ = process.Signal(syscall.SIGCONT) })
		})
	}
	a, err := m.process.do(order)
	if err != nil {
		m.close()
	}
	return a, err
}

func (m *mortal) close() {
	if m.process != nil {
		m.process.close()
		m.process = nil
	}
}

var (
	contestOfProcesses = contest{rivals: 3, terms: 12, lease: time.Second, start: startMortal}
	contestOfElected   = contest{rivals: 3, terms: 6, lease: time.Second, election: true, start: startMortal}
)

func TestGuardedWritesOfProcessesAreLinearizable(t *testing.T) {
	contestOfProcesses.run(t, fakeStage(t))
}

func TestGuardedWritesOfElectedProcessesAreLinearizable(t *testing.T) {
	contestOfElected.run(t, fakeStage(t))
}

// takeOver lets a standby of a rank take over from a process that ends hard or
// is paused.
func takeOver(t *testing.T, s *stage, signal syscall.Signal, rank int) {
	config := rivalConfig{
		Brokers: s.brokers, Role: unique("role"), Member: "process",
		Topic: s.compacted(t, 1), Commands: unique("commands"), Lease: 9 * time.Second,
	}
	s.create(t, config.Commands, 1)
	lease, err := config.lease()
	if err != nil {
		t.Fatal(err)
	}
	p := startRival(t, config)
	defer p.close()
	first := p.must(t, rivalOrder{Do: takeRole})
	p.must(t, rivalOrder{Do: writeValue, Value: "in time"})

	r, transport := role(t, config.Role), s.transport(t, lease)
	for n := range rank { // members that are gone
		gone := member(t, "gone-"+string(rune('a'+n)))
		key := coordination.EncodeKey(coordination.RegistrationKey(r, gone))
		value := coordination.EncodeRegistration(coordination.Registration{Member: gone, RegisteredAt: time.Now().UnixMilli()})
		if err := transport.Append(within(t, patience), at(config.Topic, 0), key, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	l, err := coordination.AcquireLeadership(within(t, patience), transport, r, member(t, "standby"), config.options(lease)...)
	if err != nil {
		t.Fatal(err)
	}
	release(t, l)
	took := time.Duration(l.Lease().GrantedAt-s.lastDeadline(t, config.Topic, r, first.Token)) * time.Millisecond
	// One clock, so no skew: never early. How late depends on the machine.
	if earliest := time.Duration(rank) * lease.ChallengeStagger(); took < earliest {
		t.Errorf("the standby of rank %d took over %v past the deadline, want %v at least", rank, took, earliest)
	}
	if l.Sequence() <= first.Sequence || l.Token().String() == first.Token {
		t.Errorf("the term %s at %d follows the term %s at %d", l.Token(), l.Sequence(), first.Token, first.Sequence)
	}
	guard, err := l.Guard()
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Write(within(t, patience), coordination.GuardedRecord{Topic: config.Commands, Value: []byte("standby")}); err != nil {
		t.Fatal(err)
	}
	if signal == syscall.SIGSTOP {
		if err := p.send(rivalOrder{Do: writeValue, Value: "late", Timeout: patience}); err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		late, err := p.receive()
		if err != nil {
			t.Fatal(err)
		}
		// A broker says so to this write, or has said so to the renewal before it.
		if !late.Fenced || !slices.Contains([]string{"", kerr.ProducerFenced.Message, kerr.InvalidProducerEpoch.Message}, late.Code) {
			t.Errorf("the late write of the process that was paused came to %+v, want a fence", late)
		}
	}
	want := []string{"in time", "standby"}
	if got := s.visible(t, config.Commands, 0); !slices.Equal(got, want) {
		t.Errorf("commands %q, want %q", got, want)
	}
}

// lastDeadline returns the deadline of the last lease that was committed under
// a token.
func (s *stage) lastDeadline(t *testing.T, topic string, r coordination.Role, minted string) int64 {
	t.Helper()
	records, err := s.transport(t, standardConfig(t)).ReadPartition(within(t, patience), at(topic, 0))
	if err != nil {
		t.Fatal(err)
	}
	deadline := int64(0)
	for _, record := range records {
		key, err := coordination.DecodeKey(record.Key)
		if err != nil {
			t.Fatal(err)
		}
		if key != coordination.LeaseKey(r) || coordination.IsTombstone(record.Value) {
			continue
		}
		lease, err := coordination.DecodeLease(record.Value)
		if err != nil {
			t.Fatal(err)
		}
		if lease.Token.String() == minted {
			deadline = lease.Deadline
		}
	}
	return deadline
}

// takeOvers are the ways a process loses the role.
func takeOvers(t *testing.T, s *stage) {
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		takeOver(t, s, syscall.SIGKILL, 0)
	})
	t.Run("killed, and the next in rank is gone", func(t *testing.T) {
		t.Parallel()
		takeOver(t, s, syscall.SIGKILL, 1)
	})
	t.Run("paused", func(t *testing.T) {
		t.Parallel()
		takeOver(t, s, syscall.SIGSTOP, 0)
	})
}

func TestStandbyTakesOverFromAProcess(t *testing.T) { takeOvers(t, fakeStage(t)) }
