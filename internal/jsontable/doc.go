// SPDX-License-Identifier: Apache-2.0

// Package jsontable says which columns rows have that are JSON documents, and converts
// such rows from and to batches.
//
// The columns come from an Arrow schema ([NewPlan]), from a JSON Schema
// ([ParseSchema]) or from the first documents ([Infer]). [Plan.Batch] reads documents
// into a batch, and [Rows] writes those of a batch. Rows that are not objects have one
// column, [ScalarColumn].
//
// It knows Go types of rows by reflection, where their numbers and times decide the form
// of the JSON. Generic bridges, and what a batch of records adds, are the business of
// package columnar.
package jsontable
