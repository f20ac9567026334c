// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"net/http"
	"testing"
)

func FuzzRegistryAnswers(f *testing.F) {
	f.Add(200, `{"id":1,"version":2,"schema":"s","schemaType":"JSON","references":[{"name":"n","subject":"s","version":1}]}`)
	f.Add(200, `{"id":1,"references":[{}],"guid":7}`)
	f.Add(200, `[1,"a",null]`)
	f.Add(200, `{"is_compatible":"yes","messages":{}}`)
	f.Add(200, ``)
	f.Add(200, `"NONE"`)
	f.Add(404, `{"error_code":40403,"message":"no"}`)
	f.Add(409, `{"error_code":"x"}`)
	f.Add(301, `<html>`)
	f.Add(599, "\x00\xff")
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 999 {
			return
		}
		client, _ := answering(t, status, body, WithMaxRetries(0))
		check := func(err error) {
			t.Helper()
			if err == nil {
				return
			}
			registry, ok := errors.AsType[*RegistryError](err)
			if !ok || registry.Error() == "" {
				t.Errorf("error is %#v", err)
			} else if registry.StatusCode != -1 && registry.StatusCode != status {
				t.Errorf("status %d became %d", status, registry.StatusCode)
			}
		}
		latest, err := client.Latest(t.Context(), "s")
		check(err)
		if latest.ID < 0 || latest.ID > 1<<32-1 {
			t.Errorf("id is %d", latest.ID)
		}
		fetched, err := client.SchemaByID(t.Context(), 1)
		check(err)
		if err == nil && (fetched.Schema == "" || status < 200 || status > 299) {
			t.Errorf("status %d with %q is a schema: %+v", status, body, fetched)
		}
		subjects, err := client.Subjects(t.Context())
		check(err)
		if (err == nil) != (subjects != nil) {
			t.Errorf("subjects are %#v, %v", subjects, err)
		}
		_, err = client.Versions(t.Context(), "s")
		check(err)
		_, err = client.SchemaVersions(t.Context(), 1)
		check(err)
		_, err = client.Compatibility(t.Context())
		check(err)
		_, err = client.DeleteCompatibility(t.Context())
		check(err)
		_, err = client.DeleteVersion(t.Context(), "s", 1, false)
		check(err)
		result, err := client.CheckCompatibility(t.Context(), "s", NewSchema{Schema: "s"})
		check(err)
		if result.Compatible && result.Incompatibilities != nil {
			t.Errorf("result is %+v", result)
		}
		if status == http.StatusNotFound {
			_, err = client.SchemaByID(t.Context(), 1)
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("a 404 is %v", err)
			}
		}
	})
}
