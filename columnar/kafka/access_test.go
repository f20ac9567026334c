// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// accessNames are the names that the parts below use, by what the page about
// operations calls them.
var accessNames = map[string]struct {
	kind kmsg.ACLResourceType
	name string
}{
	"topic input":             {kmsg.ACLResourceTypeTopic, "input"},
	"topic output":            {kmsg.ACLResourceTypeTopic, "output"},
	"topic of the state":      {kmsg.ACLResourceTypeTopic, "state"},
	"topic `__barrier_state`": {kmsg.ACLResourceTypeTopic, columnar.BarrierStateTopic},
	"group":                   {kmsg.ACLResourceTypeGroup, "group"},
	"transactional id":        {kmsg.ACLResourceTypeTransactionalId, "id"},
	"transactional id `krabka-barrier-<group>`": {kmsg.ACLResourceTypeTransactionalId, "krabka-barrier-group"},
}

// documentedAccess reads the table of docs/operations.md: what each part needs.
func documentedAccess(t *testing.T) map[string][]kfake.ACL {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Access control\n")
	section, _, _ = strings.Cut(section, "\n## ")
	access := map[string][]kfake.ACL{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || !strings.HasPrefix(cells[0], "| `") {
			continue
		}
		part := strings.Trim(cells[0], "| `")
		resource, ok := accessNames[cells[1]]
		if !ok {
			t.Fatalf("no resource is called %q", cells[1])
		}
		for operation := range strings.SplitSeq(strings.Trim(cells[2], "| "), ", ") {
			op, err := kmsg.ParseACLOperation(operation)
			if err != nil {
				t.Fatal(err)
			}
			access[part] = append(access[part], kfake.ACL{
				Resource: resource.kind, Name: resource.name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true,
			})
		}
	}
	return access
}

// partsWithAccess do what each part does, once.
var partsWithAccess = map[string]func(ctx context.Context, opts []kgo.Opt) error{
	"Member": func(ctx context.Context, opts []kgo.Opt) error {
		m, err := kafka.NewMember("group", opts...)
		if err != nil {
			return err
		}
		return errors.Join(passOn(ctx, m, m, (*columnar.GroupRunner).RunOnce), m.Close())
	},
	"TransactionalMember": func(ctx context.Context, opts []kgo.Opt) error {
		m, err := kafka.NewTransactionalMember("group", "id", opts...)
		if err != nil {
			return err
		}
		return errors.Join(passOn(ctx, m, m, (*columnar.GroupRunner).RunOnceTransactional), m.Close())
	},
	"Reader": func(ctx context.Context, opts []kgo.Opt) error {
		r, err := kafka.NewReader(opts...)
		if err != nil {
			return err
		}
		defer r.Close()
		if err := r.Assign([]columnar.TopicPartition{{Topic: "input", Partition: 0}}); err != nil {
			return err
		}
		for {
			records, err := r.Poll(ctx, 100*time.Millisecond)
			if err != nil || len(records) > 0 {
				return err
			}
		}
	},
	"Producer": func(_ context.Context, opts []kgo.Opt) error {
		p, err := kafka.NewProducer(opts...)
		if err != nil {
			return err
		}
		defer p.Close()
		return columnar.SendAll([]columnar.ProducedToTopic{{Topic: "output", Record: columnar.NewProduceRecord(nil, []byte("v"), -1)}}, p)
	},
	"CutPublisher": func(ctx context.Context, opts []kgo.Opt) error {
		p, err := kafka.NewCutPublisher("group", []string{"input"}, opts...)
		if err != nil {
			return err
		}
		defer p.Close()
		if _, err := p.Publish(ctx); err != nil {
			return err
		}
		_, err = p.Publish(ctx) // reads the first cut
		return err
	},
	"StateStore": func(ctx context.Context, opts []kgo.Opt) error {
		s, err := kafka.NewStateStore("state", opts...)
		if err != nil {
			return err
		}
		defer s.Close()
		generation, err := s.Claim(ctx, 0)
		if err != nil {
			return err
		}
		info, err := s.SaveSnapshot(ctx, columnar.SnapshotInfo{Epoch: columnar.NoEpoch, Generation: generation}, map[string][]byte{"node": {1}})
		if err != nil {
			return err
		}
		_, err = s.LoadSnapshot(ctx, info)
		return err
	},
}

// passOn runs rounds until one record of the input is in the output.
func passOn(ctx context.Context, consumer columnar.Consumer, producer columnar.Producer,
	round func(*columnar.GroupRunner, context.Context, time.Duration) (map[columnar.TopicPartition]int64, error)) error {
	topology := columnar.NewTopology(memory.DefaultAllocator)
	source, err := topology.AddSource("source", []string{"input"}, columnar.NewBlobCodec(memory.DefaultAllocator))
	if err != nil {
		return err
	}
	if _, err := topology.AddPassThroughSink("sink", "output", source); err != nil {
		return err
	}
	runner, err := columnar.NewGroupRunner(topology, consumer, producer)
	if err != nil {
		return err
	}
	for runner.Metrics().Snapshot().InputRecords == 0 {
		if _, err := round(runner, ctx, 100*time.Millisecond); err != nil {
			return errors.Join(err, runner.Close())
		}
	}
	return runner.Close()
}

// tryAccess runs a part as a user who has access and nothing else.
func tryAccess(t *testing.T, part string, access []kfake.ACL) error {
	t.Helper()
	in := newFake(t, kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("PLAIN", "admin", "admin"), kfake.User("PLAIN", "service", "secret", access...),
		kfake.SeedTopics(1, "input", "output", "state", columnar.BarrierStateTopic))
	as := func(user, password string) kgo.Opt {
		return kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism())
	}
	admin := in.client(t, as("admin", "admin"))
	if err := admin.ProduceSync(within(t), &kgo.Record{Topic: "input", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return partsWithAccess[part](within(t), in.opts(as("service", "secret"), kafka.WithCallTimeout(5*time.Second)))
}

func TestPartsNeedTheDocumentedAccess(t *testing.T) {
	documented := documentedAccess(t)
	for part := range partsWithAccess {
		access := documented[part]
		if len(access) == 0 {
			t.Errorf("the page about operations does not say what a %s needs", part)
		}
		t.Run(part, func(t *testing.T) {
			if err := tryAccess(t, part, access); err != nil {
				t.Errorf("with the documented access: %v", err)
			}
		})
		for i, missing := range access {
			t.Run(fmt.Sprintf("%s without %v of %s", part, missing.Operation, missing.Name), func(t *testing.T) {
				err := tryAccess(t, part, slices.Delete(slices.Clone(access), i, i+1))
				var denied *kafka.AccessError
				var topic *columnar.TopicError
				switch {
				case errors.As(err, &denied):
				case errors.As(err, &topic) && errors.Is(err, kerr.TopicAuthorizationFailed) && topic.Topic == missing.Name:
				default:
					t.Errorf("got error %v, want one that names %s", err, missing.Name)
				}
			})
		}
	}
}
