// SPDX-License-Identifier: Apache-2.0

// Package kafka adapts the franz-go client to the interfaces of package
// columnar: group members, readers and producers for Apache Kafka, a publisher
// of barrier cuts, and a state store in a compacted topic.
//
// # What is for what
//
//	Member                a runner that processes each record at least once
//	TransactionalMember   a runner that processes each record exactly once
//	Reader                a columnar.CutReader, columnar.RunPartitionOnce, reading a topic to its end
//	Producer              sending alone
//	CutPublisher          barrier groups on brokers that publish no cuts: one process for a group
//	StateStore            state that follows its partitions from one machine to another
//
// A member is consumer and producer at once, over one client:
//
//	member, err := kafka.NewTransactionalMember(group, id, kgo.SeedBrokers(brokers...))
//	runner, err := columnar.NewGroupRunner(topology, member, member, options...)
//
// One client is what exactness needs: the transaction ends before its partitions
// move on to another member, and the offsets carry the generation of the poll
// that brought the records. Close the runner first, then the member.
//
// # Options
//
// Constructors take the caller's own kgo.Opts: seed brokers, TLS, SASL, logger,
// hooks, fetch and produce sizes, timeouts. The options of this package are
// kgo.Opts too and travel in the same list. Options that exactness depends on
// belong to the adapter, and a caller's that says otherwise is an [OptionError]:
//
//	isolation level                read committed
//	offset to start at             the log start, where the group has no commit
//	offset to reset at             none: a columnar.OffsetOutOfRangeError instead
//	commits                        by the runner, never by the client
//	balancer                       gives the partitions of one number of all topics to one member
//	rebalances                     inside Poll only
//	control records                kept from the caller, counted in positions
//	idempotent writes              always
//	record delivery timeout        by WithDeliveryTimeout
//
// All members of a group need this balancer: a member of another library cannot
// join the same group. Members with different subscriptions can, so that a
// service is upgraded one process at a time.
//
// # Transactions
//
// The transactional id belongs to one process at a time and should stay the same
// when the process is restarted: a new member with the id fences the old one and
// ends what it left open at once. Otherwise a transaction that a killed process
// left open holds readers back until its timeout, 60 seconds unless
// kgo.TransactionTimeout says otherwise.
//
// When the answer to a commit is lost, the member finds out how it ended: it
// initialises its id anew, which ends whatever is open, and reads the committed
// offsets.
//
// # Cuts
//
// Brokers of Apache Kafka write no markers. A cut of a [CutPublisher] is the last
// stable offset of each partition, asked for in one request to each broker. What
// lies before it is committed or aborted for good. The records of one transaction
// can lie on both sides.
//
// Several processes may run a publisher for a group if [WithLeadership] elects
// the one that publishes. Each cut is a transaction that the publisher before
// cannot bring in late, and a [RenewableLeadership] also keeps a process from
// publishing that was suspended and does not know that another one leads.
//
// # Concurrency
//
//	Member, TransactionalMember   Poll, Seek, commits and transactions by one goroutine at a time, the rest by any
//	Reader                        Assign, Poll and Seek by one goroutine at a time, the rest by any
//	Producer                      safe for concurrent use
//	CutPublisher, StateStore      safe for concurrent use
//
// Each object has its own client, with the goroutines of one. Close ends them
// and waits for them; it belongs to whoever made the object.
//
// # Errors
//
// Errors that a runner acts on are those of package columnar: FencedError,
// RebalancedError, TransactionAbortedError, CommitUnknownError,
// OffsetOutOfRangeError, TopicError. Beside them:
//
//	OptionError               an option contradicts the adapter          fix the call
//	UnreachableError          no broker answered in time                 retriable; look at the address and the listeners
//	AccessError               SASL failed, or a permission is missing    grant it: docs/operations.md lists what each part needs
//	UnequalPartitionsError    topics of a member differ in their counts  make them equal, or WithUnequalPartitions
//	TopicConfigError          a topic exists and is not compacted        change its cleanup.policy
//	ErrClosed                 a call after Close                         none
//
// [columnar.IsRetriable] is true for an UnreachableError and for answers of
// brokers that change by themselves, such as a coordinator that is loading.
//
// # Examples
//
// The package example is a whole service; [StateStore] shows state moving from
// one machine to another, [Reader] how a topic is read to its end, and
// [CutPublisher] a cut.
package kafka
