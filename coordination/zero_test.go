// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"iter"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// exportedTypes are pointers to the zero value of every exported type that has
// methods. A nil pointer of one that says so is to be usable too.
var exportedTypes = map[string]struct {
	zero any
	null bool
}{
	"Action":                  {zero: new(coordination.Action)},
	"AuthorizationError":      {zero: new(coordination.AuthorizationError)},
	"Credential":              {zero: new(coordination.Credential)},
	"DeviceGuard":             {zero: new(coordination.DeviceGuard), null: true},
	"EpochMode":               {zero: new(coordination.EpochMode)},
	"FencingToken":            {zero: new(coordination.FencingToken)},
	"FormatError":             {zero: new(coordination.FormatError)},
	"GuardedWriter":           {zero: new(coordination.GuardedWriter), null: true},
	"KafkaError":              {zero: new(coordination.KafkaError)},
	"KafkaTransport":          {zero: new(coordination.KafkaTransport), null: true},
	"Leadership":              {zero: new(coordination.Leadership), null: true},
	"LeadershipStatus":        {zero: new(coordination.LeadershipStatus)},
	"LeaseConfig":             {zero: new(coordination.LeaseConfig)},
	"LeaseTiming":             {zero: new(coordination.LeaseTiming)},
	"ManualClock":             {zero: new(coordination.ManualClock)},
	"MemberID":                {zero: new(coordination.MemberID)},
	"OutcomeUnknownError":     {zero: new(coordination.OutcomeUnknownError)},
	"RecordKind":              {zero: new(coordination.RecordKind)},
	"Role":                    {zero: new(coordination.Role)},
	"RoleState":               {zero: new(coordination.RoleState)},
	"RoleStateBuilder":        {zero: new(coordination.RoleStateBuilder), null: true},
	"StaleCredentialError":    {zero: new(coordination.StaleCredentialError)},
	"SystemClock":             {zero: new(coordination.SystemClock)},
	"TopicConfigError":        {zero: new(coordination.TopicConfigError)},
	"TopicError":              {zero: new(coordination.TopicError)},
	"TopicPartition":          {zero: new(coordination.TopicPartition)},
	"TopicPolicy":             {zero: new(coordination.TopicPolicy)},
	"TransactionTimeoutError": {zero: new(coordination.TransactionTimeoutError)},
}

var exportedFunctions = map[string]any{
	"AcquireLeadership":            coordination.AcquireLeadership,
	"BuildRoleState":               coordination.BuildRoleState,
	"DecodeKey":                    coordination.DecodeKey,
	"DecodeLease":                  coordination.DecodeLease,
	"DecodeRegistration":           coordination.DecodeRegistration,
	"DefaultLeaseConfig":           coordination.DefaultLeaseConfig,
	"Deregister":                   coordination.Deregister,
	"DescribeLeadership":           coordination.DescribeLeadership,
	"DescribeRoleState":            coordination.DescribeRoleState,
	"EncodeKey":                    coordination.EncodeKey,
	"EncodeLease":                  coordination.EncodeLease,
	"EncodeRegistration":           coordination.EncodeRegistration,
	"Evaluate":                     coordination.Evaluate,
	"IsTombstone":                  coordination.IsTombstone,
	"LeaseKey":                     coordination.LeaseKey,
	"NewDeviceGuard":               coordination.NewDeviceGuard,
	"NewFencingToken":              coordination.NewFencingToken,
	"NewKafkaTransport":            coordination.NewKafkaTransport,
	"NewKafkaTransportWithOptions": coordination.NewKafkaTransportWithOptions,
	"NewLeaseConfig":               coordination.NewLeaseConfig,
	"NewLeaseTiming":               coordination.NewLeaseTiming,
	"NewManualClock":               coordination.NewManualClock,
	"NewMemberID":                  coordination.NewMemberID,
	"NewRole":                      coordination.NewRole,
	"NewRoleStateBuilder":          coordination.NewRoleStateBuilder,
	"ParseFencingToken":            coordination.ParseFencingToken,
	"PruneRoster":                  coordination.PruneRoster,
	"RegistrationKey":              coordination.RegistrationKey,
	"RolePartition":                coordination.RolePartition,
	"RoleTopicPartition":           coordination.RoleTopicPartition,
	"Run":                          coordination.Run,
	"RunRole":                      coordination.RunRole,
	"Watch":                        coordination.Watch,
	"WithChallengeStagger":         coordination.WithChallengeStagger,
	"WithClock":                    coordination.WithClock,
	"WithClockTolerance":           coordination.WithClockTolerance,
	"WithDeregisterOnCancel":       coordination.WithDeregisterOnCancel,
	"WithFreshRegistration":        coordination.WithFreshRegistration,
	"WithLeaseConfig":              coordination.WithLeaseConfig,
	"WithLeaseDuration":            coordination.WithLeaseDuration,
	"WithLifetime":                 coordination.WithLifetime,
	"WithLogger":                   coordination.WithLogger,
	"WithObserver":                 coordination.WithObserver,
	"WithPartitions":               coordination.WithPartitions,
	"WithPollInterval":             coordination.WithPollInterval,
	"WithPollJitter":               coordination.WithPollJitter,
	"WithFormerLeaseWait":          coordination.WithFormerLeaseWait,
	"WithWorkRetry":                coordination.WithWorkRetry,
	"WithRenewInterval":            coordination.WithRenewInterval,
	"WithSkipMalformed":            coordination.WithSkipMalformed,
	"WithTopic":                    coordination.WithTopic,
}

// callWithZeros calls a function with the zero value of each parameter, once
// with a nil context and once with a live one, and reports a panic.
func callWithZeros(t *testing.T, name string, function reflect.Value) {
	t.Helper()
	contexts := reflect.TypeFor[context.Context]()
	for _, ctx := range []reflect.Value{reflect.Zero(contexts), reflect.ValueOf(t.Context())} {
		var args []reflect.Value
		for i := range function.Type().NumIn() {
			switch in := function.Type().In(i); {
			case function.Type().IsVariadic() && i == function.Type().NumIn()-1:
			case in == contexts:
				args = append(args, ctx)
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("%s panics with zero arguments: %v", name, r)
				}
			}()
			for _, result := range function.Call(args) {
				use(t, name, result.Interface())
			}
		}()
	}
}

// use does with a result what a caller does.
func use(t *testing.T, name string, result any) {
	t.Helper()
	switch result := result.(type) {
	case coordination.Option:
		if _, err := coordination.RoleTopicPartition(role(t, "r"), result); err != nil && !errors.Is(err, coordination.ErrInvalidOption) {
			t.Errorf("%s: the option fails with %v", name, err)
		}
	case iter.Seq2[coordination.LeaderChange, error]:
		for _, err := range result {
			if !errors.Is(err, coordination.ErrInvalidArgument) {
				t.Errorf("%s yields %v", name, err)
			}
		}
	case *coordination.KafkaTransport:
		result.Close()
	}
}

// A value that no constructor built and an argument that is missing are a
// mistake that a program hears of in an error.
func TestZeroValuesDoNotPanic(t *testing.T) {
	for name, exported := range exportedTypes {
		zero := reflect.ValueOf(exported.zero)
		values := map[string]reflect.Value{"new(" + name + ")": zero}
		if exported.null {
			values["(*"+name+")(nil)"] = reflect.Zero(zero.Type())
		}
		for label, value := range values {
			for i := range value.NumMethod() {
				callWithZeros(t, label+"."+value.Type().Method(i).Name, value.Method(i))
			}
		}
	}
	for name, function := range exportedFunctions {
		callWithZeros(t, name, reflect.ValueOf(function))
	}
}

func TestZeroValuesCoverTheExportedNames(t *testing.T) {
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), source, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range file.Decls {
			function, ok := declared.(*ast.FuncDecl)
			if !ok || !function.Name.IsExported() {
				continue
			}
			if function.Recv == nil {
				found++
				if _, ok := exportedFunctions[function.Name.Name]; !ok {
					t.Errorf("function %s is not called with zero values", function.Name.Name)
				}
				continue
			}
			receiver := function.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			name := fmt.Sprint(receiver)
			if _, ok := exportedTypes[name]; !ok && ast.IsExported(name) {
				t.Errorf("method %s.%s is not called on the zero value", name, function.Name.Name)
			}
		}
	}
	if found != len(exportedFunctions) {
		t.Errorf("the package exports %d functions, the test calls %d", found, len(exportedFunctions))
	}
}

func TestZeroHandlesSayWhatTheyAre(t *testing.T) {
	ctx := t.Context()
	var noContext context.Context
	f := newFixture(t, 1000)
	live := f.acquire(t, "node-1")
	guard, err := coordination.NewDeviceGuard(ctx, new(memoryStore))
	if err != nil {
		t.Fatal(err)
	}
	credential := coordination.Credential{Token: token(t, 7, 5), Sequence: 100}
	work := coordination.Callbacks{OnAcquired: func(context.Context, *coordination.Leadership) error { return nil }}
	m, at := member(t, "m"), at("t", 0)
	var transport coordination.KafkaTransport
	want := map[error]map[string]error{
		coordination.ErrNotHeld: {
			"renew":      new(coordination.Leadership).Renew(ctx),
			"resign":     new(coordination.Leadership).Resign(ctx),
			"leave":      new(coordination.Leadership).Leave(ctx),
			"verify":     new(coordination.Leadership).Verify(ctx),
			"check":      new(coordination.Leadership).Check(),
			"reason":     new(coordination.Leadership).Err(),
			"nil":        (*coordination.Leadership)(nil).Renew(ctx),
			"guard":      second(new(coordination.Leadership).Guard()),
			"credential": second(new(coordination.Leadership).Credential()),
			"write":      new(coordination.GuardedWriter).Write(ctx, coordination.GuardedRecord{Topic: "t"}),
			"nil write":  (*coordination.GuardedWriter)(nil).Write(ctx),
		},
		coordination.ErrTransportClosed: {
			"mint":       second(transport.AcquireEpoch(ctx, f.role)),
			"nil":        second((*coordination.KafkaTransport)(nil).AcquireEpoch(ctx, f.role)),
			"read":       second(transport.ReadPartition(ctx, at)),
			"append":     transport.Append(ctx, at, []byte("k"), nil),
			"lease":      transport.WriteLease(ctx, at, token(t, 1, 1), []byte("k"), nil),
			"records":    transport.WriteRecords(ctx, f.role, token(t, 1, 1), nil),
			"topic":      transport.EnsureTopic(ctx, "t", 1),
			"leadership": second(coordination.AcquireLeadership(ctx, &transport, f.role, m)),
			"run":        coordination.Run(ctx, &transport, f.role, m, work),
		},
		coordination.ErrInvalidOption: {
			"clock": second(coordination.RoleTopicPartition(f.role, coordination.WithClock((*coordination.ManualClock)(nil)))),
		},
		coordination.ErrInvalidArgument: {
			"transport":         second(coordination.AcquireLeadership(ctx, nil, f.role, m)),
			"role":              second(coordination.AcquireLeadership(ctx, f.fake, coordination.Role{}, m)),
			"member":            second(coordination.AcquireLeadership(ctx, f.fake, f.role, coordination.MemberID{})),
			"acquire context":   second(coordination.AcquireLeadership(noContext, f.fake, f.role, m)),
			"run context":       coordination.Run(noContext, f.fake, f.role, m, work),
			"run callback":      coordination.Run(ctx, f.fake, f.role, m, coordination.Callbacks{}),
			"coordinator":       second(coordination.DescribeLeadership(ctx, nil, f.role)),
			"describe context":  second(coordination.DescribeLeadership(noContext, f.fake, f.role)),
			"state context":     second(coordination.DescribeRoleState(noContext, f.fake, f.role)),
			"reader":            second(coordination.DescribeRoleState(ctx, nil, f.role)),
			"registrar":         coordination.Deregister(ctx, nil, f.role, m),
			"deregister":        coordination.Deregister(noContext, f.fake, f.role, m),
			"roster":            second(coordination.PruneRoster(ctx, nil, f.role, time.Hour)),
			"prune context":     second(coordination.PruneRoster(noContext, f.fake, f.role, time.Hour)),
			"store":             second(coordination.NewDeviceGuard(ctx, nil)),
			"store context":     second(coordination.NewDeviceGuard(noContext, new(memoryStore))),
			"zero guard":        new(coordination.DeviceGuard).Admit(ctx, credential),
			"nil guard":         (*coordination.DeviceGuard)(nil).Admit(ctx, credential),
			"guard context":     guard.Admit(noContext, credential),
			"renew context":     live.Renew(noContext),
			"resign context":    live.Resign(noContext),
			"leave context":     live.Leave(noContext),
			"verify context":    live.Verify(noContext),
			"write context":     new(coordination.GuardedWriter).Write(noContext),
			"transport context": second(transport.ReadPartition(noContext, at)),
			"clock context":     new(coordination.ManualClock).BlockUntil(noContext, 1),
			"builder":           (*coordination.RoleStateBuilder)(nil).Apply(coordination.StateRecord{}),
		},
	}
	for sentinel, errs := range want {
		for name, err := range errs {
			if !errors.Is(err, sentinel) {
				t.Errorf("%s: error %v, want one that matches %q", name, err, sentinel)
			}
		}
	}
	if err := live.Err(); err != nil {
		t.Errorf("a nil context ended the leadership: %v", err)
	}
}

func TestZeroLeadershipIsOver(t *testing.T) {
	var l coordination.Leadership
	select {
	case <-l.Done():
	default:
		t.Error("Done is open")
	}
	if l.Token() != coordination.NoEpoch || l.MintedToken() != coordination.NoEpoch || l.Sequence() != -1 {
		t.Errorf("token %s, minted %s, sequence %d; want none", l.Token(), l.MintedToken(), l.Sequence())
	}
	var transport coordination.KafkaTransport
	select {
	case <-transport.Superseded(role(t, "r"), coordination.FencingToken{}):
	default:
		t.Error("the token of a transport that was not built is not superseded")
	}
}

func TestZeroManualClock(t *testing.T) {
	var clock coordination.ManualClock
	due := clock.After(time.Second)
	reached := make(chan error, 1)
	go func() { reached <- clock.BlockUntil(t.Context(), 2) }()
	second := clock.After(time.Minute)
	if err := <-reached; err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	if got := <-due; got.UnixMilli() != 1000 {
		t.Errorf("released at %v, want 1000 ms", got)
	}
	if clock.Waiters() != 1 || len(second) != 0 {
		t.Errorf("%d waiters, want the one of the later wait", clock.Waiters())
	}
}
