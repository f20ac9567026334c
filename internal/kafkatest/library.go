// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	// mavenPlugin resolves and lays out what the services are made of.
	mavenPlugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"

	kafkaFolder = "kafka-4.4.0"
	// The newest registry needs Java 21.
	registryVersion       = "3.3.3"
	registryVersionJava17 = "2.6.13.Final"
)

// kafkaPOM names the artifacts of the broker.
//
//go:embed kafka.pom.xml
var kafkaPOM []byte

// FetchKafka returns a folder below build with the jar files of Apache Kafka,
// which it fills with Maven if it is not there.
func FetchKafka(ctx context.Context, build string) (string, error) {
	return fetch(build, kafkaFolder, func(folder string) error {
		return maven(ctx, "copy-dependencies", "-DoutputDirectory="+folder)
	})
}

// fetchRegistry returns a folder below build with Apicurio Registry of a
// version, which it fills with Maven if it is not there.
func fetchRegistry(ctx context.Context, build, version string) (string, error) {
	return fetch(build, "apicurio-registry-"+version, func(folder string) error {
		return maven(ctx, "unpack", "-DoutputDirectory="+folder,
			"-Dartifact=io.apicurio:apicurio-registry-app:"+version+":tar.gz:all")
	})
}

// fetch returns the absolute path of a folder below build. If it is not there,
// fill puts its files into a folder beside it that takes the name once it is
// complete, so that an interrupted download leaves nothing that looks whole.
func fetch(build, name string, fill func(folder string) error) (string, error) {
	build, err := filepath.Abs(build)
	if err != nil {
		return "", fmt.Errorf("kafkatest: fetch %s: %w", name, err)
	}
	folder := filepath.Join(build, name)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if err := os.MkdirAll(build, 0o755); err != nil {
		return "", fmt.Errorf("kafkatest: fetch %s: %w", name, err)
	}
	partial, err := os.MkdirTemp(build, name+".partial-")
	if err != nil {
		return "", fmt.Errorf("kafkatest: fetch %s: %w", name, err)
	}
	defer os.RemoveAll(partial)
	if err := fill(partial); err != nil {
		return "", fmt.Errorf("kafkatest: fetch %s: %w", name, err)
	}
	if err := os.Rename(partial, folder); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("kafkatest: fetch %s: %w", name, err)
	}
	return folder, nil
}

// maven runs a goal of Maven's dependency plugin on the broker's project, in a
// folder of its own, where the plugin leaves its marks. What Maven prints is
// part of the error.
func maven(ctx context.Context, goal string, args ...string) error {
	project, err := os.MkdirTemp("", "kafkatest-maven-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(project)
	pom := filepath.Join(project, "pom.xml")
	if err := os.WriteFile(pom, kafkaPOM, 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mvn", append([]string{"-q", "-B", "-f", pom, mavenPlugin + ":" + goal}, args...)...)
	isolate(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn: %w\n%s", err, out)
	}
	return nil
}
