// SPDX-License-Identifier: Apache-2.0

//go:build integration

package coordination_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/krabka-io/krabka-streams-go/coordination"
	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

func login(user, password string) kgo.Opt {
	return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism())
}

// mintFails mints on a stage that must refuse it, before the context ends.
func mintFails(t *testing.T, s *stage) error {
	t.Helper()
	_, err := s.transport(t, standardConfig(t)).AcquireEpoch(within(t, patience), role(t, unique("role")))
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("mint: %v, want a refusal before the context ends", err)
	}
	return err
}

// leads takes a role on a stage, renews and writes.
func leads(t *testing.T, s *stage) {
	t.Helper()
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	l := acquire(t, s.transport(t, standardConfig(t)), r, "node-1", topic)
	granted := l.Lease().GrantedAt
	if err := l.Renew(within(t, patience)); err != nil || l.Lease().GrantedAt < granted {
		t.Errorf("renewal: %v, granted at %d after %d", err, l.Lease().GrantedAt, granted)
	}
	if got := s.describe(t, r); got != l.Token() {
		t.Errorf("the coordinator holds %s, want %s", got, l.Token())
	}
}

func TestKafkaTransportLogsInOnKafka(t *testing.T) {
	brokers, user, password := kafkatest.SASLBrokers(t)
	leads(t, &stage{brokers: brokers, opts: []kgo.Opt{login(user, password)}})
	err := mintFails(t, &stage{brokers: brokers, opts: []kgo.Opt{login(user, "wrong")}})
	var denied *coordination.AuthorizationError
	if !errors.As(err, &denied) || !errors.Is(err, kerr.SaslAuthenticationFailed) || denied.Permission != "" {
		t.Errorf("mint with a wrong password: %v, want an AuthorizationError about the login", err)
	}
	mintFails(t, &stage{brokers: brokers})
}

// certificate makes a certificate for this machine, and writes it with its key
// to a file.
func certificate(t *testing.T) (roots *x509.CertPool, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(signed)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	file = filepath.Join(t.TempDir(), "broker.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return roots, file
}

func TestKafkaTransportOnASecuredBroker(t *testing.T) {
	t.Parallel()
	roots, file := certificate(t)
	const listener = "listener.name.sasl_plaintext."
	settings := maps.Clone(privateSettings)
	maps.Copy(settings, map[string]string{
		"listener.security.protocol.map":   "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
		listener + "ssl.keystore.type":     "PEM",
		listener + "ssl.keystore.location": file,
		"authorizer.class.name":            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                      "User:ANONYMOUS",
	})
	broker := kafkatest.Start(t, kafkatest.Options{TransactionVersion: 2, Settings: settings})
	// Whoever does not log in may do everything.
	open := &stage{brokers: []string{broker.Addr}}
	secured := func(opts ...kgo.Opt) *stage { return &stage{brokers: []string{broker.SASLAddr}, opts: opts} }
	encrypted := kgo.DialTLSConfig(&tls.Config{RootCAs: roots})
	user := login(kafkatest.SASLUser, kafkatest.SASLPassword)

	t.Run("an unknown certificate", func(t *testing.T) {
		err := mintFails(t, secured(user, kgo.DialTLSConfig(&tls.Config{RootCAs: x509.NewCertPool()})))
		var unknown *tls.CertificateVerificationError
		if !errors.As(err, &unknown) {
			t.Errorf("mint: %v, want an error about the certificate", err)
		}
	})
	t.Run("no TLS", func(t *testing.T) { mintFails(t, secured(user)) })
	t.Run("TLS where there is none", func(t *testing.T) {
		mintFails(t, &stage{brokers: open.brokers, opts: []kgo.Opt{encrypted}})
	})
	t.Run("permissions", func(t *testing.T) { permissions(t, open, secured(encrypted, user)) })
	private(t, open, broker)
}

// permission is an entry of an access control list.
type permission struct {
	kind      kmsg.ACLResourceType
	name      string
	operation kmsg.ACLOperation
}

// allow gives a user permissions, and waits until the broker knows.
func (s *stage) allow(t *testing.T, user string, permissions ...permission) {
	t.Helper()
	ask := kmsg.NewPtrCreateACLsRequest()
	for _, p := range permissions {
		entry := kmsg.NewCreateACLsRequestCreation()
		entry.ResourceType, entry.ResourceName, entry.ResourcePatternType = p.kind, p.name, kmsg.ACLResourcePatternTypeLiteral
		entry.Principal, entry.Host = "User:"+user, "*"
		entry.Operation, entry.PermissionType = p.operation, kmsg.ACLPermissionTypeAllow
		ask.Creations = append(ask.Creations, entry)
	}
	answer, err := ask.RequestWith(within(t, patience), s.client(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range answer.Results {
		if err := kerr.ErrorForCode(result.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range permissions {
		for !s.allowed(t, p) {
		}
	}
}

// allowed reports whether the broker knows of a permission.
func (s *stage) allowed(t *testing.T, p permission) bool {
	t.Helper()
	ask := kmsg.NewPtrDescribeACLsRequest()
	ask.ResourceType, ask.ResourceName, ask.ResourcePatternType = p.kind, &p.name, kmsg.ACLResourcePatternTypeLiteral
	ask.Operation, ask.PermissionType = p.operation, kmsg.ACLPermissionTypeAllow
	answer, err := ask.RequestWith(within(t, patience), s.client(t))
	if err != nil {
		t.Fatal(err)
	}
	return len(answer.Resources) > 0
}

// withdraw takes a permission back, and waits until the broker knows.
func (s *stage) withdraw(t *testing.T, p permission) {
	t.Helper()
	ask := kmsg.NewPtrDeleteACLsRequest()
	filter := kmsg.NewDeleteACLsRequestFilter()
	filter.ResourceType, filter.ResourceName, filter.ResourcePatternType = p.kind, &p.name, kmsg.ACLResourcePatternTypeLiteral
	filter.Operation, filter.PermissionType = p.operation, kmsg.ACLPermissionTypeAllow
	ask.Filters = append(ask.Filters, filter)
	if _, err := ask.RequestWith(within(t, patience), s.client(t)); err != nil {
		t.Fatal(err)
	}
	for s.allowed(t, p) {
	}
}

// ruled is a role of a user who may do what a list says.
type ruled struct {
	topic, commands string
	role            coordination.Role
}

func (x ruled) id(operation kmsg.ACLOperation) permission {
	return permission{kmsg.ACLResourceTypeTransactionalId, x.role.String(), operation}
}

func (x ruled) state(operation kmsg.ACLOperation) permission {
	return permission{kmsg.ACLResourceTypeTopic, x.topic, operation}
}

func (x ruled) command(operation kmsg.ACLOperation) permission {
	return permission{kmsg.ACLResourceTypeTopic, x.commands, operation}
}

// full are the permissions of a member that leads and writes.
func (x ruled) full() []permission {
	return []permission{
		x.id(kmsg.ACLOperationWrite), x.state(kmsg.ACLOperationRead), x.state(kmsg.ACLOperationWrite),
		x.state(kmsg.ACLOperationDescribeConfigs), x.command(kmsg.ACLOperationWrite),
	}
}

// permissions tries a user without each of the permissions. open is the stage
// of a user who may do everything.
func permissions(t *testing.T, open, s *stage) {
	tests := []struct {
		name     string
		with     func(x ruled) []permission // nil for all
		create   bool                       // the topic
		resource func(x ruled) string
		want     string
	}{
		{name: "nothing on the transactional id", with: func(x ruled) []permission { return x.full()[1:] },
			resource: func(x ruled) string { return `transactional id "` + x.role.String() + `"` }, want: "DESCRIBE"},
		{name: "no write on the transactional id",
			with:     func(x ruled) []permission { return append(x.full()[1:], x.id(kmsg.ACLOperationDescribe)) },
			resource: func(x ruled) string { return `transactional id "` + x.role.String() + `"` }, want: "WRITE"},
		{name: "nothing on the topic", with: func(x ruled) []permission { return x.full()[:1] },
			resource: func(x ruled) string { return `topic "` + x.topic + `"` }, want: "DESCRIBE"},
		{name: "no read on the topic",
			with: func(x ruled) []permission {
				return []permission{x.id(kmsg.ACLOperationWrite), x.state(kmsg.ACLOperationWrite), x.state(kmsg.ACLOperationDescribeConfigs)}
			},
			resource: func(x ruled) string { return `topic "` + x.topic + `"` }, want: "READ"},
		{name: "no write on the topic",
			with: func(x ruled) []permission {
				return []permission{x.id(kmsg.ACLOperationWrite), x.state(kmsg.ACLOperationRead), x.state(kmsg.ACLOperationDescribeConfigs)}
			},
			resource: func(x ruled) string { return `topic "` + x.topic + `"` }, want: "WRITE"},
		{name: "no settings of the topic", with: func(x ruled) []permission { return x.full()[:3] },
			resource: func(x ruled) string { return `topic "` + x.topic + `"` }, want: "DESCRIBE_CONFIGS"},
		{name: "no creation of the topic", create: true,
			resource: func(x ruled) string { return `topic "` + x.topic + `"` }, want: "CREATE"},
		{name: "no write on the topic of the commands", with: func(x ruled) []permission { return append(x.full()[:4], x.command(kmsg.ACLOperationDescribe)) },
			resource: func(x ruled) string { return `topic "` + x.commands + `"` }, want: "WRITE"},
		{name: "nothing missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := ruled{topic: unique("created"), commands: unique("commands"), role: role(t, unique("role"))}
			if !tt.create {
				x.topic = open.compacted(t, 1)
			}
			open.create(t, x.commands, 1)
			granted := x.full()
			if tt.with != nil {
				granted = tt.with(x)
			}
			open.allow(t, kafkatest.SASLUser, granted...)
			transport := s.transport(t, standardConfig(t), func(options *coordination.KafkaOptions) {
				if tt.create {
					options.TopicPolicy = coordination.CreateTopic
				}
			})
			ctx := within(t, patience)
			l, err := coordination.AcquireLeadership(ctx, transport, x.role, member(t, "node-1"), coordination.WithTopic(x.topic), coordination.WithPartitions(1))
			if err == nil {
				release(t, l)
				guard, failure := l.Guard()
				if failure != nil {
					t.Fatal(failure)
				}
				err = guard.Write(ctx, coordination.GuardedRecord{Topic: x.commands, Value: []byte("command")})
				if renewal := l.Renew(ctx); renewal != nil {
					t.Errorf("renewal after the guarded write: %v", renewal)
				}
			}
			var denied *coordination.AuthorizationError
			switch {
			case tt.want == "":
				if err != nil {
					t.Errorf("with all permissions: %v", err)
				}
				if got := open.visible(t, x.commands, 0); len(got) != 1 {
					t.Errorf("commands %q, want one", got)
				}
			case !errors.As(err, &denied):
				t.Errorf("got %v, want an AuthorizationError", err)
			default:
				if diff := cmp.Diff([]string{tt.resource(x), tt.want}, []string{denied.Resource, denied.Permission}); diff != "" {
					t.Errorf("missing permission mismatch (-want +got):\n%s", diff)
				}
			}
		})
	}
	t.Run("withdrawn from a holder", func(t *testing.T) {
		x := ruled{topic: open.compacted(t, 1), commands: unique("commands"), role: role(t, unique("role"))}
		open.allow(t, kafkatest.SASLUser, x.full()...)
		lease := leaseConfig(t, 15*time.Second, 3*time.Second, time.Second)
		l := acquire(t, s.transport(t, lease), x.role, "node-1", x.topic, coordination.WithLeaseConfig(lease), coordination.WithPollInterval(100*time.Millisecond))
		open.withdraw(t, x.id(kmsg.ACLOperationWrite))
		var denied *coordination.AuthorizationError
		if err := l.Renew(within(t, patience)); !errors.As(err, &denied) || denied.Permission != "WRITE" || l.Err() != nil && !errors.Is(l.Err(), coordination.ErrLeaseExpired) {
			t.Errorf("renewal: %v, the leadership ended with %v; want an AuthorizationError, and no end before the deadline", err, l.Err())
		}
		select {
		case <-l.Done():
		case <-within(t, patience).Done():
			t.Fatal("the leadership outlives its lease")
		}
		if err := l.Err(); !errors.Is(err, coordination.ErrLeaseExpired) || !errors.As(err, &denied) {
			t.Errorf("the leadership ended with %v, want ErrLeaseExpired with an AuthorizationError", err)
		}
	})
}
