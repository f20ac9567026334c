// SPDX-License-Identifier: Apache-2.0

package avroplan

import "testing"

// fuzzSchemas seeds the fuzz targets.
var fuzzSchemas = []string{
	`"string"`,
	`["null",{"type":"int","logicalType":"date"},"string"]`,
	`{"type":"record","name":"n.R","aliases":["Old"],"fields":[{"name":"a","type":["null","R"],"default":null},{"name":"b","type":{"type":"array","items":"null"},"aliases":["c"]}]}`,
	`{"type":"record","name":"R","fields":[{"name":"e","type":{"type":"enum","name":"E","symbols":["A","B"],"default":"A"},"default":"B"},{"name":"d","type":{"type":"fixed","name":"F","size":4,"logicalType":"decimal","precision":4,"scale":2}},{"name":"m","type":{"type":"map","values":"double"},"default":{"x":1.5}}]}`,
	`{"type":"record","name":"R","fields":[{"name":"e","type":"long"},{"name":"r","type":{"type":"record","name":"S","fields":[{"name":"x","type":"float","default":1},{"name":"y","type":"bytes","default":"\u00ff"}]},"default":{}}]}`,
	`{"type":"record","name":"R","fields":[{"name":"r","type":"R","default":{}}]}`,
}

func FuzzParse(f *testing.F) {
	for _, text := range fuzzSchemas {
		f.Add(text, fuzzSchemas[2])
	}
	f.Fuzz(func(t *testing.T, text, reference string) {
		s, err := Parse(text)
		lenient, lenientErr := ParseWriter(text)
		if err == nil {
			if lenientErr != nil || outline(lenient) != outline(s) {
				t.Fatalf("ParseWriter differs from Parse: %v", lenientErr)
			}
			if mismatches := Check(s, s); mismatches != nil {
				t.Fatalf("a schema does not read itself: %v", mismatches)
			}
		}
		if ref, err := Parse(reference); err == nil {
			if _, err := Parse(text, ref); err != nil && err.Error() == "" {
				t.Fatal("error without a text")
			}
		}
	})
}

func FuzzResolve(f *testing.F) {
	for i, writer := range fuzzSchemas {
		f.Add(writer, fuzzSchemas[(i+1)%len(fuzzSchemas)], []byte{2, 4, 0, 2, 0})
		f.Add(writer, writer, []byte{0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, writerText, readerText string, data []byte) {
		writer, err := ParseWriter(writerText)
		if err != nil {
			return
		}
		reader, err := Parse(readerText)
		if err != nil {
			return
		}
		n, err := Resolve(writer, reader)
		if err != nil {
			if Check(writer, reader) == nil {
				t.Fatalf("Resolve fails where Check finds nothing: %v", err)
			}
			return
		}
		_, readErr := readText(n, data)

		// Passing over the datum takes as many bytes as reading it.
		var c Cursor
		c.Reset(data)
		if err := c.Skip(writer); readErr == nil && (err != nil || c.Remaining() != 0) {
			t.Fatalf("the datum can be read but not passed over: %v, %d bytes remain", err, c.Remaining())
		}
	})
}
