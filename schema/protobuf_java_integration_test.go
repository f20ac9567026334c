// SPDX-License-Identifier: Apache-2.0

//go:build integration

package schema

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
)

// TestJavaProtobufReadsRandomMessages has Protobuf for Java find the message of
// each frame by its indexes and read it. It needs Java 17 and Maven, which
// fetches that library.
func TestJavaProtobufReadsRandomMessages(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var frames strings.Builder
	for _, m := range randomTestMessages(seed, 2000) {
		s, _ := seededProtobuf(t, m, 258)
		data, err := s.Serialize("t", m)
		if err != nil {
			t.Fatal(err)
		}
		text, err := prototext.MarshalOptions{EmitASCII: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&frames, "seed %d|%s|%s|%s\n", seed, m.ProtoReflect().Descriptor().FullName(), hex.EncodeToString(data), text)
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "frames.txt")
	if err := os.WriteFile(file, []byte(frames.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(folder, "lib")
	runProgram(t, "mvn", "-q", "-B", "-f", "testdata/golden-java-protobuf/pom.xml",
		"org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", "-DoutputDirectory="+library)
	out := runProgram(t, "java", "-cp", library+"/*", "testdata/golden-java-protobuf/ProtobufGolden.java", "verify", "testdata/protobuf/files.pb", file)
	if want := "2000 messages compared, 0 differ"; !strings.Contains(out, want) {
		t.Errorf("Java says %q, want %q", out, want)
	}
}

func runProgram(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%.4000s", name, err, out)
	}
	return string(out)
}
