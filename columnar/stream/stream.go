// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// Builder collects the steps of one topology. The zero value is not usable; call
// [New]. A Builder and its streams are not safe for concurrent use.
type Builder struct {
	mem      memory.Allocator
	topology *columnar.Topology
	steps    map[string]int // number of steps, by kind
	open     []*Stream      // streams that a step made, in order
	errs     []error
}

// Option configures a [Builder].
type Option func(*Builder)

// WithAllocator makes the topology allocate the columns of its batches from mem.
// The default is [memory.DefaultAllocator].
func WithAllocator(mem memory.Allocator) Option {
	return func(b *Builder) { b.mem = mem }
}

// New returns a builder without steps.
func New(options ...Option) *Builder {
	b := &Builder{mem: memory.DefaultAllocator, steps: map[string]int{}}
	for _, option := range options {
		if option != nil {
			option(b)
		}
	}
	if b.mem == nil {
		b.errs = append(b.errs, errors.New("stream: the allocator is nil"))
	}
	b.topology = columnar.NewTopology(b.mem)
	return b
}

// From begins a stream with the records of topics, which format decodes. It adds
// [columnar.Topology.AddSource].
func (b *Builder) From(format Format, topics ...string) *Stream {
	name := b.nodeName("", "source")
	codec, err := b.codec(name, format)
	if err != nil {
		return b.fail(err)
	}
	if json, ok := format.(JSONFormat); ok && len(json.fields) == 0 {
		return b.fail(stepError(name, errors.New("JSON without fields has no columns to decode into: name the fields in stream.JSON")))
	}
	return b.add(name)(b.topology.AddSource(name, topics, codec))
}

// Topology returns the topology that the steps describe, for
// [columnar.NewGroupRunner] or [columnar.Topology.Build]. It returns the errors
// of all steps, joined. A stream that no step and no sink reads is an error that
// names the step.
func (b *Builder) Topology() (*columnar.Topology, error) {
	errs := slices.Clone(b.errs)
	for _, s := range b.open {
		if !s.read {
			errs = append(errs, stepError(s.name, errors.New("nothing reads the rows of this step: end the stream with To or ForwardTo")))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if err := b.topology.Validate(); err != nil {
		return nil, err
	}
	return b.topology, nil
}

// nodeName returns name, or a name of the next step of a kind.
func (b *Builder) nodeName(name, kind string) string {
	b.steps[kind]++
	if name != "" {
		return name
	}
	return fmt.Sprintf("%s-%d", kind, b.steps[kind])
}

// add returns a function that makes a stream of a node of that name which was
// added to the topology, or notes why the node was not added.
func (b *Builder) add(name string) func(columnar.Node, error) *Stream {
	return func(node columnar.Node, err error) *Stream {
		if err != nil {
			return b.fail(err)
		}
		s := &Stream{builder: b, node: node, name: name}
		b.open = append(b.open, s)
		return s
	}
}

// fail notes an error and returns a stream whose further steps do nothing.
func (b *Builder) fail(err error) *Stream {
	b.errs = append(b.errs, err)
	return &Stream{builder: b, failed: true}
}

func (b *Builder) codec(name string, format Format) (columnar.BatchCodec, error) {
	if format == nil {
		return nil, stepError(name, errors.New("the format is nil"))
	}
	codec, err := format.Codec(b.mem)
	if err != nil {
		return nil, stepError(name, err)
	}
	return codec, nil
}

func stepError(name string, cause error) error {
	return &columnar.NodeError{Node: name, Partition: -1, Cause: cause}
}

// Stream is the rows behind one step of a topology. A stream may be read by
// several steps, each of which gets all rows: that is how a stream branches. A
// Stream is not safe for concurrent use.
type Stream struct {
	builder *Builder
	node    columnar.Node
	name    string // of the step whose rows these are
	next    string // the name of the next step, where the caller chose it
	read    bool   // some step or sink reads the rows
	failed  bool   // the step was not added; its error is noted
	origin  *Stream
}

// Named returns the same stream; the next step of the returned stream has the
// given name.
func (s *Stream) Named(name string) *Stream {
	named := *s
	named.next = name
	named.origin = s.source()
	return &named
}

// source returns the stream that the step returned, of which s is s or a copy
// with another name for the next step.
func (s *Stream) source() *Stream {
	if s.origin != nil {
		return s.origin
	}
	return s
}

// Where keeps the rows for which condition is true ([columnar.FilterWhere]).
func (s *Stream) Where(condition columnar.Expression) *Stream {
	return s.operator("where", columnar.FilterWhere(s.builder.mem, condition))
}

// Select keeps the named columns, in that order ([columnar.Select]).
func (s *Stream) Select(columns ...string) *Stream {
	return s.operator("select", columnar.Select(s.builder.mem, columns...))
}

// With adds computed columns, or replaces columns of the same name
// ([columnar.Derive]).
func (s *Stream) With(columns ...columnar.NamedExpression) *Stream {
	return s.operator("with", columnar.Derive(s.builder.mem, columns...))
}

// Explode makes a row of each element of the lists of a column ([columnar.Explode]).
func (s *Stream) Explode(column string) *Stream {
	return s.operator("explode", columnar.Explode(s.builder.mem, column))
}

// WithKey computes the key of the records that a sink makes of the rows
// ([columnar.WithKey]). The rows stay in their partition.
func (s *Stream) WithKey(key columnar.Expression) *Stream {
	return s.operator("key", columnar.WithKey(s.builder.mem, key))
}

// WithTimestamp computes the event time of the rows ([columnar.WithTimestamp]).
func (s *Stream) WithTimestamp(timestamp columnar.Expression) *Stream {
	return s.operator("timestamp", columnar.WithTimestamp(s.builder.mem, timestamp))
}

// Apply runs an operator of package columnar on the rows
// ([columnar.Topology.AddOperator]).
func (s *Stream) Apply(operator *columnar.BuiltinOp) *Stream {
	return s.operator("apply", operator)
}

// Process runs a processor of the caller's on the rows
// ([columnar.Topology.AddProcessor]).
func (s *Stream) Process(processor func() columnar.Processor) *Stream {
	name, ok := s.step("process", s)
	if !ok {
		return s.dead()
	}
	return s.builder.add(name)(s.builder.topology.AddProcessor(name, processor, s.node))
}

// Merge is the rows of s and the others, which have equal schemas
// ([columnar.Topology.AddMerge]).
func (s *Stream) Merge(others ...*Stream) *Stream {
	parents := append([]*Stream{s}, others...)
	name, ok := s.step("merge", parents...)
	if !ok {
		return s.dead()
	}
	nodes := make([]columnar.Node, len(parents))
	for i, parent := range parents {
		nodes[i] = parent.node
	}
	return s.builder.add(name)(s.builder.topology.AddMerge(name, nodes))
}

// Join pairs each row of s with the rows of right whose key is equal and whose
// event time is at most within away ([columnar.Topology.AddJoin]). With a within
// of 0 the times are equal.
func (s *Stream) Join(right *Stream, within time.Duration, match Match) *Stream {
	name, ok := s.step("join", s, right)
	if !ok {
		return s.dead()
	}
	join := match.join
	join.Window = within
	return s.builder.add(name)(s.builder.topology.AddJoin(name, join, s.node, right.node))
}

// To writes the rows to a topic, as records that format encodes
// ([columnar.Topology.AddSink]). It returns the builder, so that a chain of one
// stream ends with [Builder.Topology].
func (s *Stream) To(topic string, format Format) *Builder {
	name, ok := s.step("sink", s)
	if !ok {
		return s.builder
	}
	codec, err := s.builder.codec(name, format)
	if err == nil {
		_, err = s.builder.topology.AddSink(name, topic, codec, s.node)
	}
	if err != nil {
		s.builder.fail(err)
	}
	return s.builder
}

// ForwardTo writes the records of a source to a topic as they are, without
// decoding them ([columnar.Topology.AddPassThroughSink]). The stream is one that
// [Builder.From] returned.
func (s *Stream) ForwardTo(topic string) *Builder {
	name, ok := s.step("sink", s)
	if !ok {
		return s.builder
	}
	if _, err := s.builder.topology.AddPassThroughSink(name, topic, s.node); err != nil {
		s.builder.fail(err)
	}
	return s.builder
}

func (s *Stream) operator(kind string, operator *columnar.BuiltinOp) *Stream {
	name, ok := s.step(kind, s)
	if !ok {
		return s.dead()
	}
	return s.builder.add(name)(s.builder.topology.AddOperator(name, operator, s.node))
}

// step returns the name of a step that reads parents, and whether the step can
// be added: all parents are streams of the same builder whose own steps were
// added.
func (s *Stream) step(kind string, parents ...*Stream) (string, bool) {
	name := s.builder.nodeName(s.next, kind)
	for _, parent := range parents {
		switch {
		case parent == nil:
			s.builder.fail(stepError(name, errors.New("a stream that the step reads is nil")))
			return name, false
		case parent.builder != s.builder:
			s.builder.fail(stepError(name, errors.New("a stream that the step reads belongs to another builder")))
			return name, false
		case parent.failed:
			return name, false
		}
	}
	for _, parent := range parents {
		parent.source().read = true
	}
	return name, true
}

// dead returns a stream whose steps do nothing.
func (s *Stream) dead() *Stream { return &Stream{builder: s.builder, failed: true} }
