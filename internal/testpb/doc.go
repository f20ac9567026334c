// SPDX-License-Identifier: Apache-2.0

// Package testpb holds the Protobuf messages of tests, compiled from the files
// in the folder shop.
package testpb

//go:generate go run generate.go
