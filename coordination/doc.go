// SPDX-License-Identifier: Apache-2.0

// Package coordination elects one leader per role over Kafka producer epochs,
// so that the broker itself rejects the writes of a deposed leader.
//
// A leader that lost its lease does not know it, so it cannot fence itself:
// something outside the leader has to refuse its writes. Here the broker does.
//
// # The identity of a term
//
// A role is a Kafka transactional id. A member takes the role by calling
// InitProducerId for that id, and the transaction coordinator answers with a
// producer id and a producer epoch, the [FencingToken] of the term.
//
//   - The pair is stored in the replicated __transaction_state topic before it
//     is answered, so a quorum mints it.
//   - Every mint advances the epoch, and no pair is used twice. When the epochs
//     of a producer id are used up, after 32766, the coordinator goes on with
//     another producer id at epoch 0.
//   - A write under an older pair is rejected with INVALID_PRODUCER_EPOCH,
//     INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED, which is [ErrFenced].
//   - Any process can ask for the newest pair, see [DescribeLeadership].
//
// # Who is authoritative
//
// The member with the newest pair, and nobody else. The lease decides nothing
// about that. It is a record in [StateTopic] that tells standbys how long to
// leave a quiet holder alone: a wrong lease makes a failover early or late, and
// never makes two members authoritative. No clock takes part in the check of
// the broker.
//
// # States
//
// A member reads the coordination topic, registers unless it is in the roster, and
// stands by until its turn comes. Then it challenges: it calls InitProducerId and
// writes the first lease. A challenger that is fenced stands by again; the other
// one leads, renews and writes under the epoch, until it is fenced or resigned,
// its lease expires or its transport is closed.
//
// A registration takes no epoch. Its offset is the rank of the member: the
// roster is in offset order without the holder, rank 0 challenges at the
// deadline, and each further rank one stagger later. So the order of succession
// is the order of joining, and a member that was removed and comes back queues
// at the tail and preempts nobody. A registration that the log still holds is
// used again. Without a lease, the anchor is the registration time instead of
// the deadline. See [Evaluate].
//
// The stagger makes it rare that two members challenge at once, and it need
// not make it impossible: InitProducerId is atomic, so one of them has the
// newest epoch, and the other is fenced by its first write. It looks at the log
// again, and after further fences it stays away for a growing, jittered time.
//
// # The trust window
//
// Between the mint of a successor and its own next write, a leader that was
// paused does not know that it was deposed. Its writes through
// [Leadership.Guard] are rejected all the same. An action outside Kafka is not,
// and a leader bounds the risk by acting only before [Leadership.SafeUntil]:
//
//	min(deadline of the lease, time the lease was taken + duration, monotonic) - tolerance
//
// With clocks within the tolerance ([WithClockTolerance]), no standby challenges
// before that. A process can be suspended between the check and the action, so
// the window is narrowed and not closed. To close it, the device checks a
// [Credential] with a [DeviceGuard].
//
// # What a fenced leader sees
//
// Its renewal or guarded write returns an error that matches [ErrFenced], Done
// is closed before that call returns, and [Leadership.Err] keeps the reason. A
// write in flight when Done closes may still succeed or fail; its own answer
// says which, or that nobody knows, see [ErrOutcomeUnknown].
//
// # Failure handling
//
// Renewals are bounded and retried every poll interval. When the lease is over
// and a renewal has failed or hangs, the leadership ends with
// [ErrLeaseExpired]. A process that was paused past its deadline asks the
// broker first. [Leadership.Resign] never cancels a write in flight, and when
// it returns nil no record of the term follows. An acquisition ends with the
// first error of its transport, which retries what a retry settles; [Run]
// competes again and is what a service calls.
//
//	error                    when                                         what to do
//	ErrFenced                another member holds the role                stop the work; compete again
//	ErrNotHeld               the leadership was resigned or had ended     compete again
//	ErrLeaseExpired          no renewal in time, or the window is over    stop the work; compete again
//	ErrDuplicateMember       another process uses the member id           give each instance its own id
//	ErrTransportClosed       the transport was closed                     none
//	ErrOutcomeUnknown        a write that may be committed                read the topic, see OutcomeUnknownError
//	ErrInvalidOption         an option or a combination of options        fix the call
//	ErrCredentialConflict    token and sequence contradict each other     refuse the command; look at the topic
//	StaleCredentialError     a command of a deposed leader                refuse the command
//	FormatError              a record of the topic does not decode        remove it, see WithSkipMalformed
//	KafkaError               a request that could not be finished         try again where Retriable says so
//	AuthorizationError       a permission or the login is missing         grant it; it names the resource
//	TopicError               a topic or partition that does not exist     create it, see CreateTopic
//	TopicConfigError         the coordination topic has other settings    change the topic or WithPartitions
//	TransactionTimeoutError  the lease is longer than brokers allow       shorten it, or allow it
//
// A call that its context ended returns an error that matches the context's.
//
// # Concurrency
//
//	Leadership, GuardedWriter, DeviceGuard   safe for concurrent use; writes of one leadership take turns
//	KafkaTransport                           safe for concurrent use; roles do not wait for each other
//	ManualClock, SystemClock                 safe for concurrent use
//	Transport, StateReader, Clock            implementations must be safe for concurrent use
//	AcquireLeadership, Run and the rest      may be called concurrently, also for one role and one transport
//	CredentialStore                          called by one goroutine at a time
//	RoleStateBuilder                         not safe for concurrent use
//	Observer, KafkaHooks                     functions are called by several goroutines, with no lock held
//	Callbacks                                OnAcquired and OnLost on the goroutine of Run, OnLeaderChange on another
//	Role, MemberID, FencingToken and other values   may be copied and shared
//
// A leadership has two goroutines until it ends, and Run up to three more. A
// transport has those of two clients, and Close ends them.
//
// # Clocks
//
// A deadline is a wall-clock instant that the holder writes and a standby
// compares with its own clock, so a skew of S moves a failover by up to S. A
// standby that watched the holder renew trusts that more than its own clock:
// it challenges no earlier than the extent of the lease after it last saw the
// lease renewed, and, whatever the clocks say, no later than that extent, its
// stagger and a poll interval after it first saw the last lease. Waits use the
// monotonic clock. An operator that needs a bound on a failover from a cold
// start needs a bound on the skew.
//
// # What it does not promise
//
//   - That a token can be compared with < across a rotation of the producer id:
//     ids come from blocks that each broker reserves, so a later one can be
//     smaller. [Leadership.Sequence] keeps its order.
//   - That the lease in the log proves anything to a reader that does not trust
//     every writer of the topic.
//   - That two leaders never run code at the same time. They never both write.
//   - That a role is always led: between a crash and the deadline nobody leads.
//   - Order between roles, or a bound on failover while the log or the
//     coordinator is unavailable.
//
// # Transports
//
// The package reaches a cluster through [Transport] alone. [KafkaTransport]
// implements it on franz-go; every other file of the package imports the
// standard library only.
package coordination
