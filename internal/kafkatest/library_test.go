// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write returns what fills a folder with one file, and fails afterwards with
// err.
func write(text string, err error) func(string) error {
	return func(folder string) error {
		return errors.Join(os.WriteFile(filepath.Join(folder, "a.jar"), []byte(text), 0o644), err)
	}
}

func TestFetchLeavesWholeFoldersOnly(t *testing.T) {
	build := filepath.Join(t.TempDir(), "build")
	broken := errors.New("connection lost")
	if folder, err := fetch(build, "kafka", write("half", broken)); !errors.Is(err, broken) || folder != "" {
		t.Fatalf("fetch that breaks off = %q, %v, want an error that wraps %v", folder, err, broken)
	}
	if left, err := os.ReadDir(build); err != nil || len(left) > 0 {
		t.Fatalf("after a fetch that broke off the folder holds %v (%v), want nothing", left, err)
	}
	for _, text := range []string{"whole", "not fetched again"} {
		folder, err := fetch(build, "kafka", write(text, nil))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(folder, "a.jar"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("whole", string(got)); diff != "" {
			t.Errorf("fetched file mismatch (-want +got):\n%s", diff)
		}
	}
}

func TestFetchYieldsToAnotherThatWasFaster(t *testing.T) {
	build := t.TempDir()
	folder, err := fetch(build, "kafka", func(partial string) error {
		_, err := fetch(build, "kafka", write("faster", nil))
		return errors.Join(err, write("slower", nil)(partial))
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(folder, "a.jar"))
	if err != nil || string(got) != "faster" {
		t.Errorf("fetched file holds %q (%v), want that of the faster fetch", got, err)
	}
}
