// SPDX-License-Identifier: Apache-2.0

// Package columnarschema decodes registry-framed Avro and Protobuf records
// straight into Arrow columns, and encodes them back.
package columnarschema
