// SPDX-License-Identifier: Apache-2.0

package avroplan

import "fmt"

// timeUnit describes the logical types that count a unit of time: what they
// count, and how many of the unit are a second. Values of one family differ in
// their unit alone.
type timeUnit struct {
	family    string
	perSecond int64
}

var timeUnits = map[Logical]timeUnit{
	TimeMillis:           {"time", 1e3},
	TimeMicros:           {"time", 1e6},
	TimestampMillis:      {"timestamp", 1e3},
	TimestampMicros:      {"timestamp", 1e6},
	TimestampNanos:       {"timestamp", 1e9},
	LocalTimestampMillis: {"local-timestamp", 1e3},
	LocalTimestampMicros: {"local-timestamp", 1e6},
	LocalTimestampNanos:  {"local-timestamp", 1e9},
}

// convert compares the logical types of a pair whose kinds match, and sets the
// factor between their units. It returns why the reader would misread the value
// where that is so. A logical type on one side alone is an annotation of the
// same value.
func (n *Node) convert(w, rd *Schema) string {
	if w.Logical == rd.Logical {
		if w.Logical == Decimal && (w.Precision > rd.Precision || w.Scale != rd.Scale) {
			return fmt.Sprintf("reader decimal(%d,%d) cannot read writer decimal(%d,%d)",
				rd.Precision, rd.Scale, w.Precision, w.Scale)
		}
		return ""
	}
	if w.Logical == NoLogical || rd.Logical == NoLogical {
		return ""
	}
	from, to := timeUnits[w.Logical], timeUnits[rd.Logical]
	if from.family == "" || from.family != to.family {
		return fmt.Sprintf("reader %s %s cannot read writer %s %s", rd.Kind, rd.Logical, w.Kind, w.Logical)
	}
	if to.perSecond > from.perSecond {
		n.Factor = to.perSecond / from.perSecond
	} else {
		n.Factor = -(from.perSecond / to.perSecond)
	}
	return ""
}
