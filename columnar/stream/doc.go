// SPDX-License-Identifier: Apache-2.0

// Package stream builds a [columnar.Topology] as one chain of calls with one
// error at the end:
//
//	topology, err := stream.New().
//		From(stream.JSON(stream.Text("customer"), stream.Text("status"), stream.Int("cents")), "orders").
//		Where(columnar.Column("status").Equal("paid")).
//		GroupBy("customer").Tumbling(time.Minute).
//		Aggregate(stream.Sum("cents").As("total")).
//		To("totals", stream.JSON().Key("customer", columnar.WindowStartColumn)).
//		Topology()
//
// The package is a thin layer: each step adds the node of the same meaning to a
// Topology, and whatever a step does, costs and keeps is written at the function
// of package columnar that its comment names. A chain and documented calls make
// the same topology, with the same state.
//
// # Names and state
//
// Each step has a name, which errors show and under which a state store keeps
// the step's state. Without [Stream.Named] the name is the kind of the step and a
// number that counts the steps of that kind, such as group-1 or join-2. Adding a
// filter to a program therefore leaves its saved state usable, while a new
// grouping before another one does not: with a name, a step finds its state wherever
// it stands in the program.
//
// # Errors
//
// A step that is wrong adds its error to the builder, and the steps behind that
// step do nothing. [Builder.Topology] returns the errors of all steps, joined.
package stream
