// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// java is an installed Java runtime.
type java struct {
	path  string
	major int // 17, 21, ...
}

var javaVersion = regexp.MustCompile(`(?m)^\s*java\.specification\.version = (\d+)$`)

// findJava returns the oldest and the newest Java runtime of the machine that
// is at least of version 17, which Kafka needs.
func findJava(ctx context.Context) (oldest, newest java, err error) {
	paths, err := filepath.Glob("/usr/lib/jvm/*/bin/java")
	if err != nil {
		return java{}, java{}, fmt.Errorf("kafkatest: find Java: %w", err)
	}
	if home := os.Getenv("JAVA_HOME"); home != "" {
		paths = append(paths, filepath.Join(home, "bin", "java"))
	}
	if path, err := exec.LookPath("java"); err == nil {
		paths = append(paths, path)
	}
	for i, path := range paths {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			paths[i] = real
		}
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		out, err := exec.CommandContext(ctx, path, "-XshowSettings:properties", "-version").CombinedOutput()
		found := javaVersion.FindSubmatch(out)
		if err != nil || found == nil {
			continue // not a Java runtime that works
		}
		major, err := strconv.Atoi(string(found[1]))
		if err != nil || major < 17 {
			continue
		}
		if oldest.major == 0 || major < oldest.major {
			oldest = java{path, major}
		}
		if major > newest.major {
			newest = java{path, major}
		}
	}
	if newest.major == 0 {
		return java{}, java{}, fmt.Errorf("kafkatest: found no Java 17 or newer in JAVA_HOME, PATH or /usr/lib/jvm")
	}
	return oldest, newest, nil
}
