// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
	"github.com/krabka-io/krabka-streams-go/coordination"
)

// newElectedPublisher returns a publisher that publishes the cuts of a group
// while its process holds a role.
func newElectedPublisher(brokers []string, transport coordination.Transport, role coordination.Role, member coordination.MemberID, lease coordination.LeaseConfig) (*kafka.CutPublisher, error) {
	acquire := func(ctx context.Context) (kafka.Leadership, error) {
		return coordination.AcquireLeadership(ctx, transport, role, member, coordination.WithLeaseConfig(lease))
	}
	return kafka.NewCutPublisher("billing", []string{"orders"}, kgo.SeedBrokers(brokers...), kafka.WithLeadership(acquire))
}

// Every instance of a service runs a publisher, and one of them publishes. The
// embedded broker stands for a cluster.
func ExampleWithLeadership() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	brokers := cluster.ListenAddrs()
	ctx := context.Background()

	role, err := coordination.NewRole("billing.cuts")
	if err != nil {
		log.Fatal(err)
	}
	lease, err := coordination.NewLeaseConfig(10*time.Second, 3*time.Second, 100*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	transport, err := coordination.NewKafkaTransportWithOptions(lease, coordination.KafkaOptions{
		Brokers:     brokers,
		TopicPolicy: coordination.CreateTopic,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer transport.Close()
	for _, instance := range []string{"node-1", "node-2"} {
		member, err := coordination.NewMemberID(instance)
		if err != nil {
			log.Fatal(err)
		}
		publisher, err := newElectedPublisher(brokers, transport, role, member, lease)
		if err != nil {
			log.Fatal(err)
		}
		if err := publisher.EnsureTopic(ctx); err != nil {
			log.Fatal(err)
		}
		cut, err := publisher.Publish(ctx) // a service calls Run
		if err != nil {
			log.Fatal(err)
		}
		status, err := coordination.DescribeLeadership(ctx, transport, role)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s published cut %d under epoch %d: orders/1 at %d\n", instance, cut.Epoch, status.Token.ProducerEpoch(),
			cut.Offsets[columnar.TopicPartition{Topic: "orders", Partition: 1}])
		if err := order(ctx, brokers); err != nil {
			log.Fatal(err)
		}
		if err := publisher.Close(); err != nil { // resigns
			log.Fatal(err)
		}
	}
	// Output:
	// node-1 published cut 1 under epoch 0: orders/1 at 0
	// node-2 published cut 2 under epoch 1: orders/1 at 1
}

// order produces a record to the second partition of the orders.
func order(ctx context.Context, brokers []string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Partition: 1, Value: []byte("7")}).FirstErr()
}
