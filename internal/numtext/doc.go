// SPDX-License-Identifier: Apache-2.0

// Package numtext converts between numbers and text: decimals of any length, and
// dates, times of day and RFC 3339 times in the units of columns.
//
// The packages that read and write column values use it. It works on bytes of
// texts and plain numbers; it knows neither Arrow nor the syntax around a value,
// such as JSON's.
package numtext
