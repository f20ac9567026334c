// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The user that every broker of this package knows.
const (
	SASLUser     = "krabka"
	SASLPassword = "krabka-secret"
)

const (
	clusterID = "a3JhYmthLXRlc3QtY2x1cw" // 16 bytes in base64, as Kafka wants it
	// startTimeout is ample for a broker on a machine that is busy.
	startTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second
)

// Options say how a broker of a test differs from the usual one.
type Options struct {
	// TransactionVersion is the transaction protocol that the broker insists
	// on: 0 for that of brokers before Kafka 4, 2 for the one that raises the
	// producer epoch with each transaction, which is Kafka's default.
	TransactionVersion int

	// Settings are added to the broker's properties, or replace them.
	Settings map[string]string
}

// Node is a Kafka broker that is its own controller. Its data is in one folder
// and survives the process. A Node is not safe for concurrent use.
type Node struct {
	Addr     string // of the plaintext listener
	SASLAddr string // of the listener for SCRAM-SHA-256 over plaintext

	dir     string
	command []string
	process *process
}

// StartNode formats the folder dir for a broker, starts it with the jar files
// of the folder library, and waits until it answers.
func StartNode(ctx context.Context, dir, library string, options Options) (*Node, error) {
	runtime, _, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	n := &Node{
		Addr: loopback(ports[0]), SASLAddr: loopback(ports[1]), dir: dir,
		command: []string{
			runtime.path, "-Xms256m", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
			"-Dlog4j2.configurationFile=" + filepath.Join(dir, "log4j2.properties"),
			"-cp", filepath.Join(library, "*"),
		},
	}
	properties := filepath.Join(dir, "server.properties")
	if err := errors.Join(
		os.WriteFile(properties, n.properties(loopback(ports[2]), options.Settings), 0o644),
		os.WriteFile(filepath.Join(dir, "log4j2.properties"), []byte(logSettings), 0o644),
	); err != nil {
		return nil, fmt.Errorf("kafkatest: broker: %w", err)
	}
	format := exec.CommandContext(ctx, n.command[0], append(n.command[1:len(n.command):len(n.command)],
		"kafka.tools.StorageTool", "format", "-t", clusterID, "-c", properties,
		"--feature", "transaction.version="+strconv.Itoa(options.TransactionVersion),
		"--add-scram", fmt.Sprintf("SCRAM-SHA-256=[name=%s,password=%s]", SASLUser, SASLPassword))...)
	isolate(format)
	if out, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("kafkatest: format the broker's folder: %w\n%s", err, out)
	}
	n.command = append(n.command, "kafka.Kafka", properties)
	return n, n.Start(ctx)
}

// logSettings send the broker's log to its standard output.
const logSettings = `status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n%ex
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
`

// properties returns the broker's configuration.
func (n *Node) properties(controller string, settings map[string]string) []byte {
	all := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        "1",
		"controller.quorum.voters":       "1@" + controller,
		"controller.listener.names":      "CONTROLLER",
		"listeners":                      "PLAINTEXT://" + n.Addr + ",SASL_PLAINTEXT://" + n.SASLAddr + ",CONTROLLER://" + controller,
		"advertised.listeners":           "PLAINTEXT://" + n.Addr + ",SASL_PLAINTEXT://" + n.SASLAddr,
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
		"sasl.enabled.mechanisms":        "SCRAM-SHA-256",
		"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"log.dirs":                                         filepath.Join(n.dir, "data"),
		"offsets.topic.replication.factor":                 "1",
		"offsets.topic.num.partitions":                     "4",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"transaction.state.log.num.partitions":             "4",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"group.initial.rebalance.delay.ms":                 "0",
		"auto.create.topics.enable":                        "false",
	}
	maps.Copy(all, settings)
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s=%s\n", key, all[key])
	}
	return []byte(text.String())
}

// Start starts the broker again after [Node.Kill] or [Node.Stop], with its data
// and at its addresses, and waits until it answers. A broker that runs is
// stopped first.
func (n *Node) Start(ctx context.Context) error {
	n.Stop()
	p, err := startProcess("broker "+n.Addr, n.dir, filepath.Join(n.dir, "broker.log"), n.command...)
	if err != nil {
		return err
	}
	n.process = p
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := n.waitReady(ctx); err != nil {
		n.Kill()
		return err
	}
	return nil
}

// waitReady waits until the broker says which versions it speaks and is part
// of its own cluster.
func (n *Node) waitReady(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.RequestRetries(0), kgo.DialTimeout(time.Second))
	if err != nil {
		return fmt.Errorf("kafkatest: broker: %w", err)
	}
	defer client.Close()
	return n.process.waitReady(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		versions := kmsg.NewPtrApiVersionsRequest()
		versions.ClientSoftwareName, versions.ClientSoftwareVersion = "kafkatest", "1"
		if _, err := versions.RequestWith(ctx, client); err != nil {
			return err
		}
		metadata, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
		if err != nil {
			return err
		}
		if len(metadata.Brokers) != 1 {
			return fmt.Errorf("the cluster has %d brokers", len(metadata.Brokers))
		}
		return nil
	})
}

// Kill ends the broker at once, as a crash does.
func (n *Node) Kill() {
	if n.process != nil {
		n.process.kill()
	}
}

// Stop lets the broker end in order and waits for it.
func (n *Node) Stop() {
	if n.process != nil && n.process.running() {
		n.process.stop(stopTimeout)
	}
}

// LogTail returns the last lines of the broker's log.
func (n *Node) LogTail() string { return n.process.logTail() }
