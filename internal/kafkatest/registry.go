// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
)

// Registry is a schema registry that keeps its schemas in memory.
type Registry struct {
	URL string // of its Confluent-compatible interface

	process *process
}

// StartRegistry starts an Apicurio Registry and waits until it answers. Its
// log goes to the folder dir; what it is made of is below the folder build, and
// Maven fetches it if it is not there.
func StartRegistry(ctx context.Context, dir, build string) (*Registry, error) {
	_, runtime, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	version, jar := registryVersion, "quarkus-run.jar"
	if runtime.major < 21 {
		version, jar = registryVersionJava17, "apicurio-registry-app-"+registryVersionJava17+"-runner.jar"
	}
	app, err := fetchRegistry(ctx, build, version)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	p, err := startProcess("schema registry", app, filepath.Join(dir, "registry.log"),
		runtime.path, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dquarkus.http.host=127.0.0.1", "-Dquarkus.http.port="+strconv.Itoa(ports[0]),
		"-Dquarkus.management.host=127.0.0.1", "-Dquarkus.management.port="+strconv.Itoa(ports[1]),
		"-jar", jar)
	if err != nil {
		return nil, err
	}
	r := &Registry{URL: "http://" + loopback(ports[0]) + "/apis/ccompat/v7", process: p}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.waitReady(ctx, r.check); err != nil {
		r.Kill()
		return nil, err
	}
	return r, nil
}

// check asks the registry for its subjects.
func (r *Registry) check(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"/subjects", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", request.URL, response.Status)
	}
	return nil
}

// Kill ends the registry. Its schemas are lost.
func (r *Registry) Kill() { r.process.kill() }
