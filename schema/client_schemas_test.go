// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func reference(name, subject string, version int) SchemaReference {
	return SchemaReference{Name: name, Subject: subject, Version: version}
}

func TestReferencesAreResolvedInDependencyOrder(t *testing.T) {
	double := newInProcessRegistry(t)
	double.register("base", NewSchema{Schema: "BASE"})
	double.register("left", NewSchema{Schema: "LEFT", References: []SchemaReference{reference("base", "base", 1)}})
	double.register("right", NewSchema{Schema: "RIGHT", References: []SchemaReference{reference("base", "base", 1)}})
	id := double.register("root", NewSchema{Kind: KindJSON, Schema: "ROOT", References: []SchemaReference{
		reference("right", "right", 1), reference("left", "left", 1),
	}})
	got, err := double.client().ResolvedSchemaByID(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	base := Reference{Name: "base", Subject: "base", Version: 1, Schema: "BASE"}
	want := ResolvedSchema{
		Schema:     "ROOT",
		SchemaType: "JSON",
		GUID:       doubleGUID(4).String(),
		References: map[string]string{"base": "BASE", "left": "LEFT", "right": "RIGHT"},
		Dependencies: []Reference{
			base,
			{Name: "right", Subject: "right", Version: 1, Schema: "RIGHT", References: []Reference{base}},
			{Name: "left", Subject: "left", Version: 1, Schema: "LEFT", References: []Reference{base}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
	if n := double.count("GET /subjects/base/versions/1?deleted=true"); n != 1 {
		t.Errorf("the shared schema was fetched %d times", n)
	}
	byGUID, err := double.client().ResolvedSchemaByGUID(t.Context(), doubleGUID(4))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, byGUID); diff != "" {
		t.Errorf("by GUID mismatch (-want +got):\n%s", diff)
	}
}

func TestASchemaWithoutReferencesResolvesToItself(t *testing.T) {
	double := newInProcessRegistry(t)
	id := double.register("s", NewSchema{Schema: "S"})
	got, err := double.client().ResolvedSchemaByID(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if got.References == nil || len(got.References) != 0 || got.Dependencies != nil {
		t.Errorf("got %#v, want an empty map and no dependencies", got)
	}
}

func TestSoftDeletedReferencesAreFound(t *testing.T) {
	double := newInProcessRegistry(t)
	client := double.client()
	double.register("gone", NewSchema{Schema: "GONE"})
	if _, err := client.DeleteSubject(t.Context(), "gone", false); err != nil {
		t.Fatal(err)
	}
	id := double.register("root", NewSchema{Schema: "ROOT", References: []SchemaReference{reference("gone", "gone", 1)}})
	got, err := client.ResolvedSchemaByID(t.Context(), id)
	if err != nil || got.References["gone"] != "GONE" {
		t.Errorf("got %v, %v", got, err)
	}
}

// A registry deletes no schema that another one refers to.
func TestReferencedSubjectsAreNotDeleted(t *testing.T) {
	double := newInProcessRegistry(t)
	double.register("base", NewSchema{Schema: "BASE"})
	double.register("root", NewSchema{Schema: "ROOT", References: []SchemaReference{reference("base", "base", 1)}})
	client := double.client()
	if _, err := client.DeleteSubject(t.Context(), "base", false); !errors.Is(err, ErrReferenceExists) {
		t.Errorf("error is %v, want %v", err, ErrReferenceExists)
	}
	if _, err := client.DeleteSubject(t.Context(), "root", false); err != nil {
		t.Errorf("a schema without referrers: %v", err)
	}
}

func TestReferenceCyclesEnd(t *testing.T) {
	double := newInProcessRegistry(t)
	double.register("a", NewSchema{Schema: "A", References: []SchemaReference{reference("b", "b", 1)}})
	id := double.register("b", NewSchema{Schema: "B", References: []SchemaReference{reference("a", "a", 1)}})
	got, err := double.client().ResolvedSchemaByID(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "A", "b": "B"}, got.References); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
}

func TestConflictingReferencesAreAnError(t *testing.T) {
	double := newInProcessRegistry(t)
	double.register("base", NewSchema{Schema: "ONE"})
	double.register("base", NewSchema{Schema: "TWO"})
	double.register("mid", NewSchema{Schema: "MID", References: []SchemaReference{reference("base", "base", 1)}})
	id := double.register("root", NewSchema{Schema: "ROOT", References: []SchemaReference{
		reference("mid", "mid", 1), reference("base", "base", 2),
	}})
	_, err := double.client().ResolvedSchemaByID(t.Context(), id)
	const want = "conflicting schema references: base names version 1 of subject base and version 2 of subject base"
	if !errors.Is(err, ErrReferenceConflict) || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	cache := double.cache()
	if _, err := cache.AwaitWriterSchema(t.Context(), id); !errors.Is(err, ErrReferenceConflict) {
		t.Errorf("the cache says %v", err)
	}
}

func TestAMissingReferenceIsNamed(t *testing.T) {
	double := newInProcessRegistry(t)
	id := double.register("root", NewSchema{Schema: "ROOT", References: []SchemaReference{reference("n", "nowhere", 3)}})
	_, err := double.client().ResolvedSchemaByID(t.Context(), id)
	if !errors.Is(err, ErrNotFound) || !strings.HasPrefix(err.Error(), "reference n to version 3 of subject nowhere: schema registry returned HTTP 404: ") {
		t.Errorf("error is %v", err)
	}
}

func TestReferencesAreBounded(t *testing.T) {
	double := newInProcessRegistry(t)
	for i := range maxReferenceDepth + 1 {
		var references []SchemaReference
		if i > 0 {
			references = append(references, reference(fmt.Sprint("r", i-1), fmt.Sprint("s", i-1), 1))
		}
		double.register(fmt.Sprint("s", i), NewSchema{Schema: fmt.Sprint("S", i), References: references})
	}
	if _, err := double.client().ResolvedSchemaByID(t.Context(), maxReferenceDepth+1); err != nil {
		t.Errorf("%d levels: %v", maxReferenceDepth, err)
	}
	double.register("deep", NewSchema{Schema: "DEEP", References: []SchemaReference{reference("x", fmt.Sprint("s", maxReferenceDepth), 1)}})
	if _, err := double.client().ResolvedSchemaByID(t.Context(), maxReferenceDepth+2); err == nil || !strings.HasSuffix(err.Error(), "schema references are nested more than 64 deep") {
		t.Errorf("%d levels: error is %v", maxReferenceDepth+1, err)
	}

	// A registry that makes up new references without end.
	n := 0
	double.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		n++
		_, _ = fmt.Fprintf(w, `{"id":1,"schema":"s","references":[`)
		for i := range 100 {
			if i > 0 {
				_, _ = w.Write([]byte(","))
			}
			_, _ = fmt.Fprintf(w, `{"name":"n","subject":"s%d","version":%d}`, n, i)
		}
		_, _ = w.Write([]byte("]}"))
		return true
	})
	if _, err := double.client().ResolvedSchemaByID(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "nested more than") {
		t.Errorf("error is %v", err)
	}
	double.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/schemas/") {
			_, _ = w.Write([]byte(`{"id":1,"schema":"s"}`))
			return true
		}
		var list []string
		for i := range maxReferences + 1 {
			list = append(list, fmt.Sprintf(`{"name":"n%d","subject":"s","version":%[1]d}`, i))
		}
		_, _ = fmt.Fprintf(w, `{"schema":"s","references":[%s]}`, strings.Join(list, ","))
		return true
	})
	if _, err := double.client().ResolvedSchemaByID(t.Context(), 1); err == nil || !strings.HasSuffix(err.Error(), "more than 1024 schemas are reachable") {
		t.Errorf("error is %v", err)
	}
}
