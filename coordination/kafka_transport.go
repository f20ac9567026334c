// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// closeGrace bounds how long [KafkaTransport.Close] waits for calls that do
// not return when their context ends.
const closeGrace = 5 * time.Second

// KafkaTransport implements [Transport], [TermTransport] and [TopicTransport]
// with franz-go.
//
// The transport writes lease records and guarded records in transactions of the role,
// with requests of its own and not with the transactional producer of the
// client, which takes an epoch by itself when an answer is lost. It keeps the
// requests below the versions that make a coordinator advance the epoch with
// every transaction, so that the token of a leadership stays what
// [DescribeLeadership] reports. [KafkaTransport.Mode] tells where the brokers
// advance it all the same.
//
// One transport serves any number of roles and members over two clients. Two
// members on one transport behave like two processes. Calls for different
// roles do not wait for each other; the writes of one leadership take turns.
//
// The principal needs WRITE and DESCRIBE on the transactional id of each role,
// which is the role's name, and READ, WRITE and DESCRIBE on the coordination
// topic; [VerifyTopic] needs DESCRIBE_CONFIGS and [CreateTopic] CREATE as
// well. A role must not have the name of a transactional id that an
// application uses: each would fence the other.
//
// A call goes on through outages of brokers until its context ends. Its errors
// are a [*KafkaError], [*AuthorizationError], [*TopicError] or
// [*TransactionTimeoutError], or wrap one of the sentinels of this package.
//
// A KafkaTransport is safe for concurrent use by multiple goroutines. Its
// owner closes it. The zero value, like a nil one, is a closed transport.
type KafkaTransport struct {
	clients kafkaClients
	lease   LeaseConfig
	options KafkaOptions
	logger  *slog.Logger

	life   context.Context
	cancel context.CancelFunc
	shut   sync.Once
	calls  sync.WaitGroup

	routes kafkaRoutes
	terms  *kafkaTerms
	logs   kafkaLogs

	mu     sync.Mutex // guards the fields below
	closed bool
	mode   EpochMode
	states bool // the coordinator tells completed transactions from empty ones
	warned map[string]bool
}

var (
	_ TermTransport  = (*KafkaTransport)(nil)
	_ TopicTransport = (*KafkaTransport)(nil)
)

// NewKafkaTransport returns a coordination transport over plaintext
// connections to the brokers, with the topic policy [VerifyTopic]. lease is the
// policy of the roles that the transport serves; its duration is the timeout
// of their transactions. For TLS, SASL or another policy use
// [NewKafkaTransportWithOptions].
//
// The constructor connects to nothing. A lease without extents, no broker and an empty
// broker are errors that match [ErrInvalidOption].
func NewKafkaTransport(lease LeaseConfig, brokers ...string) (*KafkaTransport, error) {
	return NewKafkaTransportWithOptions(lease, KafkaOptions{Brokers: brokers})
}

// NewKafkaTransportWithOptions is [NewKafkaTransport] with options. It reports
// all problems of the options joined; each matches [ErrInvalidOption].
func NewKafkaTransportWithOptions(lease LeaseConfig, options KafkaOptions) (*KafkaTransport, error) {
	if err := options.check(lease); err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.Background())
	clients, err := newKafkaClients(life, lease, options)
	if err != nil {
		cancel()
		return nil, err
	}
	logger := options.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &KafkaTransport{
		clients: clients,
		lease:   lease,
		options: options,
		logger:  logger,
		life:    life,
		cancel:  cancel,
		warned:  make(map[string]bool),
		routes:  kafkaRoutes{coordinators: make(map[Role]int32), topics: make(map[string]*topicRoute), counts: make(map[string]int)},
		terms:   newKafkaTerms(),
		logs:    kafkaLogs{logs: make(map[TopicPartition]*partitionLog)},
	}, nil
}

// Close ends the calls in flight, waits for them, and releases the
// connections. Every later call returns an error that matches
// [ErrTransportClosed]. It does not resign: a leadership over the transport
// ends at its next renewal, and standbys wait for the deadline of its lease.
// A second Close does nothing; a concurrent one waits for the first.
func (t *KafkaTransport) Close() {
	if !t.built() {
		return
	}
	t.shut.Do(func() {
		t.mu.Lock()
		t.closed = true
		t.mu.Unlock()
		t.cancel()
		idle := make(chan struct{})
		go func() {
			t.calls.Wait()
			close(idle)
		}()
		grace := time.NewTimer(closeGrace)
		defer grace.Stop()
		select {
		case <-idle:
		case <-grace.C:
		}
		t.clients.close()
	})
}

// Lease returns the policy that the transport was built for.
func (t *KafkaTransport) Lease() LeaseConfig {
	if !t.built() {
		return LeaseConfig{}
	}
	return t.lease
}

// built reports whether a constructor made the transport.
func (t *KafkaTransport) built() bool { return t != nil && t.cancel != nil }

// enter begins a call. The context it returns ends with the one of the caller
// and with the transport.
func (t *KafkaTransport) enter(ctx context.Context) (context.Context, func(), error) {
	if err := checkContext(ctx); err != nil {
		return nil, nil, err
	}
	if !t.built() {
		return nil, nil, fmt.Errorf("kafka: %w: it was not built by NewKafkaTransport", ErrTransportClosed)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, nil, fmt.Errorf("kafka: %w", ErrTransportClosed)
	}
	t.calls.Add(1)
	call, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.life, func() { cancel(ErrTransportClosed) })
	return call, func() {
		stop()
		cancel(nil)
		t.calls.Done()
	}, nil
}

// EpochMode tells what brokers do with the producer epoch of a role when one
// of its transactions ends.
type EpochMode int

const (
	// EpochModeUnknown says that no transaction has ended yet.
	EpochModeUnknown EpochMode = iota

	// EpochModeStable says that the epoch stays until the next mint, so a
	// leadership has one token.
	EpochModeStable

	// EpochModeTracking says that the brokers advance the epoch with every
	// transaction. The transport follows it: [Leadership.Token] is the pair
	// after the last acknowledged write. A third party that took the token
	// before that write finds it not authoritative, and a device must accept
	// the tokens of one leadership in order.
	EpochModeTracking
)

// String names the mode.
func (m EpochMode) String() string {
	switch m {
	case EpochModeUnknown:
		return "unknown"
	case EpochModeStable:
		return "stable"
	case EpochModeTracking:
		return "tracking"
	}
	return fmt.Sprintf("EpochMode(%d)", int(m))
}

// Mode returns what the transport found the brokers to do. It finds out with
// the first transaction of a role. Where the epoch moved with that and nothing
// tells whether the brokers or another member moved it, the mode is
// [EpochModeTracking] from the next mint on, which does for both; brokers of a
// transaction protocol without moving epochs are out of the question.
func (t *KafkaTransport) Mode() EpochMode {
	if !t.built() {
		return EpochModeUnknown
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mode
}

// found records what the brokers do with the epoch, and reports whether that is
// new.
func (t *KafkaTransport) found(mode EpochMode) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.mode
	t.mode = mode
	return mode != before
}

// tracks tells that the epoch of a term moves.
func (t *KafkaTransport) tracks(term *kafkaTerm) {
	if t.found(EpochModeTracking) {
		t.logger.Warn("the brokers advance the producer epoch with every transaction; the token of a leadership moves with each write",
			logRole, term.role.name, logToken, term.pair().String())
	}
	if t.options.Hooks.Tracking != nil {
		t.options.Hooks.Tracking(term.role, term.pair())
	}
}

// expectTracking makes the next terms follow the epoch from their first
// transaction on, where the answer to a commit is the proof that this term
// lacks.
func (t *KafkaTransport) expectTracking(term *kafkaTerm) {
	if t.found(EpochModeTracking) {
		t.logger.Warn("the producer epoch moved with a transaction, or another member took it; the term is given up, and later ones follow the epoch",
			logRole, term.role.name, logToken, term.pair().String())
	}
}

// warnOnce logs a warning the first time it comes up.
func (t *KafkaTransport) warnOnce(message string, args ...any) {
	t.mu.Lock()
	line := fmt.Sprint(append([]any{message}, args...)...)
	known := t.warned[line]
	t.warned[line] = true
	t.mu.Unlock()
	if !known {
		t.logger.Warn(message, args...)
	}
}
