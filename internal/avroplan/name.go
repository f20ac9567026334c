// SPDX-License-Identifier: Apache-2.0

package avroplan

import "strings"

// MaxNameBytes is the longest name that Parse takes, of a type with its
// namespace.
const MaxNameBytes = 2048

// shownName is how much of a name that is too long its error shows.
const shownName = 40

// checkLength refuses a name that is too long.
func checkLength(name string, path *trail) error {
	if len(name) > MaxNameBytes {
		return fail(path, "the name that starts with %q is longer than %d bytes", name[:shownName], MaxNameBytes)
	}
	return nil
}

// fullName returns the name in the namespace, unless it is too long or the full
// names of the text are out of proportion to the text.
func (p *parser) fullName(name, namespace string, path *trail) (string, error) {
	if len(namespace) > MaxNameBytes {
		return "", checkLength(namespace, path)
	}
	if len(name) > MaxNameBytes {
		return "", checkLength(name, path)
	}
	full := qualify(name, namespace)
	if p.nameBytes -= len(full); p.nameBytes < 0 {
		return "", fail(path, "the full names are out of proportion to the size of the schema, from that of %.*q on", shownName, name)
	}
	return full, checkLength(full, path)
}

func qualify(name, namespace string) string {
	if namespace == "" {
		return name
	}
	return namespace + "." + name
}

// validFullName reports whether a full name can be used: in a writer's schema any
// can that has a name behind the namespace.
func (p *parser) validFullName(full string) bool {
	return validFullName(full) || p.lenient && simpleName(full) != ""
}

// validName is validFullName for the name of a field or a symbol.
func (p *parser) validName(name string) bool {
	return validName(name) || p.lenient && name != ""
}

// validFullName reports whether every part of a dotted name is a valid name.
func validFullName(full string) bool {
	for part := range strings.SplitSeq(full, ".") {
		if !validName(part) {
			return false
		}
	}
	return true
}

// validName reports whether name is a letter or underscore followed by letters,
// digits and underscores.
func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
