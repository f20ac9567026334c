// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// names are what one run uses on the broker. A run has its own, so that it
// meets nothing of an earlier one on a broker that stays.
type names struct {
	role, topic, commands string
}

func namesOf(run string) names {
	return names{role: "controller-" + run, topic: "coordination-" + run, commands: "commands-" + run}
}

// embed starts a broker inside this process and returns its address.
func embed() (address string, stop func(), err error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return "", nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	return cluster.ListenAddrs()[0], cluster.Close, nil
}

// createTopics creates the topics of a run and returns a function that deletes
// them.
func createTopics(ctx context.Context, brokers string, n names) (remove func(), err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		return nil, err
	}
	admin := kadm.NewClient(client)
	remove = func() {
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := admin.DeleteTopics(ctx, n.topic, n.commands); err != nil {
			fmt.Println("topics left behind:", err)
		}
	}
	// One partition, because the order of the commands is the order of its log.
	created, err := admin.CreateTopic(ctx, 1, 1, nil, n.commands)
	if err == nil {
		err = created.Err
	}
	if err == nil {
		err = ensureStateTopic(ctx, brokers, n.topic)
	}
	if err != nil {
		remove()
		return nil, fmt.Errorf("create topics: %w", err)
	}
	return remove, nil
}

// ensureStateTopic creates the coordination topic with the settings that it
// needs.
func ensureStateTopic(ctx context.Context, brokers, topic string) error {
	transport, err := coordination.NewKafkaTransportWithOptions(coordination.DefaultLeaseConfig(), coordination.KafkaOptions{
		Brokers:           []string{brokers},
		TopicPolicy:       coordination.CreateTopic,
		ReplicationFactor: 1, // for a broker that stands alone; three replicas keep the log when one is lost
	})
	if err != nil {
		return err
	}
	defer transport.Close()
	return transport.EnsureTopic(ctx, topic, statePartitions)
}
