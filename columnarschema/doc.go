// SPDX-License-Identifier: Apache-2.0

// Package columnarschema turns records in the frames of a schema registry into
// Arrow columns and back.
//
// An [AvroBatchCodec], a [ProtobufBatchCodec] and a [JSONSchemaBatchCodec] are codecs
// for the sources and sinks of package columnar. The bytes of a record go straight into the memory of
// the columns, by a plan that is compiled once for each writer schema, and
// columns go straight into the bytes of records; no Go value of a record is made
// on the way. [FromRegistry] makes such a codec from what the registry holds for
// a topic.
//
// [AvroArrowSchema] and [ProtobufArrowSchema] tell the columns of a schema. A
// column that has lost something of its type on the way keeps it in its metadata,
// see [MetadataAvroEnum] and the constants beside it.
//
// Errors are those of columnar and schema. A record that cannot be decoded is a
// [columnar.RecordError] in a [columnar.DecodeError] and wraps a
// [schema.FrameError], a [schema.DeserializeError], or the retriable
// [schema.FetchPendingError]. [BatchTooLargeError], [MismatchError] and
// [ValueError] are the package's own.
//
// The codecs and bridges are safe for concurrent use by multiple goroutines and
// start none.
package columnarschema
