// SPDX-License-Identifier: Apache-2.0

// Package krabkatest holds test doubles and conformance suites for programs
// built on this module.
package krabkatest
