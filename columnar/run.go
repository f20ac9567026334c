// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// flow is one batch on its way from a node to its children, with the topic it
// came from, if that is one.
type flow struct {
	batch arrow.RecordBatch
	topic string
}

var errNoBatch = errors.New("the codec returned neither a batch nor an error")

// run is one pass of a logical partition through the nodes.
type run struct {
	topology  *BuiltTopology
	state     *partitionState // nil if the topology keeps no instances
	partition int
	input     map[string][]ConsumedRecord
	topics    []string // of input, ascending
	advance   *int64   // the stream time to move to, for a run without records

	// outputs are the batches of each node that are still to be read. Every
	// entry holds a reference of its own.
	outputs  [][]flow
	late     map[int][]flow // the late rows of nodes, as outputs
	produced []ProducedToTopic
}

// run processes records of one logical partition. The partition is locked, if
// it is kept.
func (b *BuiltTopology) run(p *partitionState, partition int, input map[string][]ConsumedRecord, advance *int64) ([]ProducedToTopic, error) {
	if p != nil {
		if p.broken != nil {
			return nil, textPrefix.Wrap(p.broken, "partition %d cannot run", partition)
		}
		p.pending = true
	}
	r := &run{
		topology: b, state: p, partition: partition,
		input: input, topics: slices.Sorted(maps.Keys(input)), advance: advance,
		outputs: make([][]flow, len(b.nodes)),
	}
	defer r.release()
	for i, n := range b.nodes {
		if err := r.step(i, n); err != nil {
			return nil, r.explain(i, n, err)
		}
		for _, parent := range n.parents {
			if b.lastReader[parent] == i {
				r.releaseOutputs(parent)
			}
		}
		if b.lastReader[i] == i {
			r.releaseOutputs(i)
		}
	}
	return r.produced, nil
}

func (r *run) step(i int, n *node) error {
	switch n.kind {
	case sourceNode:
		return r.decode(i, n)
	case operatorNode, processorNode:
		return r.process(i, n)
	case mergeNode:
		return r.merge(i, n)
	case joinNode:
		return r.join(i, n)
	case lateRowsNode:
		for _, late := range r.late[n.parents[0]] {
			late.batch.Retain()
			r.emit(i, late.batch, late.topic)
		}
		return nil
	case passThroughNode:
		r.passThrough(n)
		return nil
	default:
		return r.encode(n)
	}
}

func (r *run) decode(i int, n *node) error {
	if !r.topology.decoded[i] {
		return nil
	}
	for _, topic := range r.topics {
		records := r.input[topic]
		if len(records) == 0 || !slices.Contains(n.topics, topic) {
			continue
		}
		for done := 0; done < len(records); {
			batch, decoded, err := decodeSome(n.codec, topic, records[done:])
			if err == nil && batch == nil {
				err = errNoBatch
			}
			if err != nil {
				return r.failure(n, topic, indexedFrom(done, err))
			}
			r.emit(i, batch, topic)
			done += decoded
		}
	}
	return nil
}

// splitError is an error of a codec that tells how many of the first records fit into
// a batch.
type splitError interface {
	error
	SplitAt() int
}

// decodeSome decodes all records, or as many as fit into one batch.
func decodeSome(codec BatchCodec, topic string, records []ConsumedRecord) (batch arrow.RecordBatch, decoded int, err error) {
	for {
		batch, err = codec.Decode(topic, records)
		var split splitError
		if !errors.As(err, &split) || split.SplitAt() <= 0 || split.SplitAt() >= len(records) {
			return batch, len(records), err
		}
		records = records[:split.SplitAt()]
	}
}

// indexedFrom makes the records that an error names count from the first record of a
// call that decoded some before.
func indexedFrom(done int, err error) error {
	var failed *DecodeError
	if done == 0 || !errors.As(err, &failed) {
		return err
	}
	shifted := &DecodeError{Records: slices.Clone(failed.Records)}
	for i, record := range shifted.Records {
		moved := *record
		moved.Index += done
		shifted.Records[i] = &moved
	}
	return shifted
}

func (r *run) process(i int, n *node) error {
	instance := &r.state.nodes[i]
	inputs := r.outputs[n.parents[0]]
	if instance.state != nil && (len(inputs) > 0 || r.advance != nil) {
		if err := instance.state.Begin(); err != nil {
			return r.failure(n, "", err)
		}
	}
	for _, in := range inputs {
		if err := r.processBatch(i, instance, in); err != nil {
			return r.failure(n, in.topic, err)
		}
	}
	if r.advance == nil {
		return nil
	}
	if err := r.advanceTime(i, instance); err != nil {
		return r.failure(n, "", err)
	}
	return nil
}

func (r *run) processBatch(i int, instance *instance, in flow) error {
	if instance.operator != nil {
		if r.topology.lateReader[i] {
			defer r.takeLateRows(i, instance.operator, in.topic)
		}
		result, err := instance.operator.kernel.Process(in.batch)
		if err != nil {
			return err
		}
		r.emit(i, result, in.topic)
		return nil
	}
	// The processor gets a handle of its own, so that what it retains and
	// forwards later is never taken for its input.
	private := in.batch.NewSlice(0, in.batch.NumRows())
	defer private.Release()
	return r.call(i, in.topic, private, func(ctx *Context) error {
		return instance.processor.Process(ctx, private)
	})
}

// takeLateRows keeps the late rows of the latest batch, also when the operator
// failed behind them.
func (r *run) takeLateRows(i int, operator *BuiltinOp, topic string) {
	g, _ := operator.groupBy()
	if late := g.TakeLateRows(); late != nil {
		if r.late == nil {
			r.late = make(map[int][]flow)
		}
		r.late[i] = append(r.late[i], flow{batch: late, topic: topic})
	}
}

func (r *run) advanceTime(i int, instance *instance) error {
	if instance.operator != nil {
		timed, ok := instance.operator.kernel.(timeKernel)
		if !ok {
			return nil
		}
		result, err := timed.Advance(*r.advance)
		if err != nil || result == nil {
			return err
		}
		r.emit(i, result, "")
		return nil
	}
	advancer, ok := instance.processor.(TimeAdvancer)
	if !ok {
		return nil
	}
	return r.call(i, "", nil, func(ctx *Context) error { return advancer.AdvanceTime(ctx, *r.advance) })
}

// call runs code of the user and takes over what it forwards, also when it
// fails or panics.
func (r *run) call(i int, topic string, input arrow.RecordBatch, process func(*Context) error) error {
	ctx := &Context{mem: r.topology.mem, partition: r.partition, pending: r.topology.signal.channel()}
	defer func() {
		owned := make(map[arrow.RecordBatch]bool, len(ctx.forwarded))
		for _, batch := range ctx.forwarded {
			if batch == input || owned[batch] {
				batch.Retain()
			}
			owned[batch] = true
			r.emit(i, batch, topic)
		}
	}()
	return process(ctx)
}

func (r *run) merge(i int, n *node) error {
	var inputs []flow
	for _, parent := range n.parents {
		inputs = append(inputs, r.outputs[parent]...)
	}
	switch len(inputs) {
	case 0:
		return nil
	case 1:
		inputs[0].batch.Retain()
		r.emit(i, inputs[0].batch, inputs[0].topic)
		return nil
	}
	topic := inputs[0].topic
	for _, in := range inputs {
		if in.topic != topic {
			topic = ""
		}
	}
	merged, err := concatBatches(r.topology.mem, batchesOf(inputs))
	if err != nil {
		return r.failure(n, topic, err)
	}
	r.emit(i, merged, topic)
	return nil
}

func batchesOf(flows []flow) []arrow.RecordBatch {
	batches := make([]arrow.RecordBatch, len(flows))
	for i, f := range flows {
		batches[i] = f.batch
	}
	return batches
}

func (r *run) join(i int, n *node) error {
	join := r.state.nodes[i].join
	if r.advance != nil {
		join.Advance(*r.advance)
	}
	left, right := r.outputs[n.parents[0]], r.outputs[n.parents[1]]
	if len(left) == 0 && len(right) == 0 {
		return nil
	}
	joined, err := join.Process(batchesOf(left), batchesOf(right))
	if err != nil {
		return r.failure(n, "", err)
	}
	for _, batch := range joined {
		r.emit(i, batch, "")
	}
	return nil
}

func (r *run) passThrough(n *node) {
	source := r.topology.nodes[n.parents[0]]
	for _, topic := range r.topics {
		if !slices.Contains(source.topics, topic) {
			continue
		}
		for _, record := range r.input[topic] {
			r.produced = append(r.produced, ProducedToTopic{Topic: n.topic, Record: ProduceRecord{
				Key: record.Key, Value: record.Value, Timestamp: record.Timestamp, Headers: record.Headers,
			}})
		}
	}
}

func (r *run) encode(n *node) error {
	for _, in := range r.outputs[n.parents[0]] {
		records, err := n.codec.Encode(n.topic, in.batch)
		if err != nil {
			return r.failure(n, n.topic, err)
		}
		r.produced = slices.Grow(r.produced, len(records))
		for _, record := range records {
			r.produced = append(r.produced, ProducedToTopic{Topic: n.topic, Record: record})
		}
	}
	return nil
}

// explain marks the error of node i if the columns of its input are to blame for
// it. Everything that has come to the node must still be there.
func (r *run) explain(i int, n *node, err error) error {
	if blamesColumns(err) || !blamesRecords(err) && r.failsWithoutRows(i, n) {
		return &misfit{err}
	}
	return err
}

// failsWithoutRows reports whether node i fails for batches without rows that have
// the columns of those that have come to it.
func (r *run) failsWithoutRows(i int, n *node) bool {
	probe := &run{
		topology: r.topology, partition: noPartition, outputs: make([][]flow, len(r.outputs)),
		state: &partitionState{nodes: make([]instance, len(r.outputs))},
	}
	defer probe.release()
	for _, parent := range n.parents {
		for _, out := range r.outputs[parent] {
			probe.emit(parent, out.batch.NewSlice(0, 0), out.topic)
		}
	}
	switch n.kind {
	case operatorNode, joinNode:
		probe.state.nodes[i] = newInstance(n, memory.DefaultAllocator)
		return probe.step(i, n) != nil
	case sinkNode:
		codec, ok := n.codec.(SchemaCodec)
		if !ok {
			return false
		}
		for _, out := range r.outputs[n.parents[0]] {
			if err := codec.CheckSchema(out.batch.Schema()); err != nil && !IsRetriable(err) {
				return true
			}
		}
	}
	return false
}

// emit makes batch an output of node i and takes over the caller's reference.
func (r *run) emit(i int, batch arrow.RecordBatch, topic string) {
	r.outputs[i] = append(r.outputs[i], flow{batch: batch, topic: topic})
}

func (r *run) failure(n *node, topic string, cause error) error {
	return &NodeError{Node: n.name, Topic: topic, Partition: r.partition, Cause: cause}
}

func (r *run) releaseOutputs(i int) {
	releaseFlows(r.outputs[i])
	r.outputs[i] = nil
}

func releaseFlows(flows []flow) {
	for _, out := range flows {
		out.batch.Release()
	}
}

func (r *run) release() {
	for i := range r.outputs {
		r.releaseOutputs(i)
	}
	for _, late := range r.late {
		releaseFlows(late)
	}
}
