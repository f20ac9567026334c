// SPDX-License-Identifier: Apache-2.0

// Package arrowtest makes Arrow data for tests: random arrays of every type,
// batches of literal rows, and the allocators and random generators under them.
// It also renders arrays and batches as text to be compared.
//
// Tests of every package may use it; nothing else may. It knows no package of
// the module.
package arrowtest
