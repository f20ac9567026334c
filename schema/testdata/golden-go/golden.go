// SPDX-License-Identifier: Apache-2.0

// The command golden writes the frames that protobuf-go makes of the messages in
// protobuf/cases.txt, and the descriptors that the Java program beside it needs.
// In the folder testdata:
//
//	go run ./golden-go
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log"
	"os"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "google.golang.org/protobuf/types/known/anypb"

	_ "github.com/krabka-io/krabka-streams-go/internal/testpb"
)

// indexes are the message indexes of each message, counted by hand in the files.
var indexes = map[string][]int64{
	"shop.Placed": {0}, "shop.Placed.Line": {0, 0}, "shop.Shipped": {1}, "shop.Cancelled": {2},
	"shop.Cancelled.Reason": {2, 0}, "shop.Cancelled.Reason.Detail": {2, 0, 0}, "shop.Cancelled.Refund": {2, 1},
	"shop.Money": {0}, "shop.Legacy": {0}, "shop.Legacy.Part": {0, 0}, "shop.Node": {1}, "shop.Scalars": {0},
	"google.protobuf.Timestamp": {0}, "google.protobuf.StringValue": {7}, "google.protobuf.Any": {0},
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	cases, err := os.Open("protobuf/cases.txt")
	if err != nil {
		return err
	}
	defer cases.Close()
	var out bytes.Buffer
	set := &descriptorpb.FileDescriptorSet{}
	lines := bufio.NewScanner(cases)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), "|")
		message, text, _ := strings.Cut(rest, "|")
		frame, err := frame(set, message, text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&out, "%s|%s\n", name, hex.EncodeToString(frame))
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if err := os.WriteFile("protobuf/go.txt", out.Bytes(), 0o644); err != nil {
		return err
	}
	descriptors, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		return err
	}
	return os.WriteFile("protobuf/files.pb", descriptors, 0o644)
}

func frame(set *descriptorpb.FileDescriptorSet, name, text string) ([]byte, error) {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
	if err != nil {
		return nil, err
	}
	add(set, kind.Descriptor().ParentFile())
	m := kind.New().Interface()
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		return nil, err
	}
	path, ok := indexes[name]
	if !ok {
		return nil, fmt.Errorf("no indexes of %s", name)
	}
	out := []byte{0, 0, 0, 1, 2}
	if len(path) == 1 && path[0] == 0 {
		out = append(out, 0)
	} else {
		out = binary.AppendVarint(out, int64(len(path)))
		for _, index := range path {
			out = binary.AppendVarint(out, index)
		}
	}
	return proto.MarshalOptions{Deterministic: true}.MarshalAppend(out, m)
}

// add puts a file into the set, behind its imports.
func add(set *descriptorpb.FileDescriptorSet, file protoreflect.FileDescriptor) {
	for _, known := range set.File {
		if known.GetName() == file.Path() {
			return
		}
	}
	for i := range file.Imports().Len() {
		add(set, file.Imports().Get(i).FileDescriptor)
	}
	set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
}
