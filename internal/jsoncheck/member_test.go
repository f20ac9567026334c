// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

type (
	jsonDeep   struct{ A, B, C int }
	jsonTagged struct {
		X int `json:"A"`
		_ int
	}
	jsonTwiceA   struct{ Same int }
	jsonTwiceB   struct{ Same int }
	jsonLeft     struct{ jsonDeep }
	jsonRight    struct{ jsonDeep }
	JSONPointer  struct{ P int }
	jsonNumber   int
	jsonEmbedded struct {
		jsonDeep
		*JSONPointer
		jsonTagged
		B int
	}
)

// Every member that encoding/json reads has a field, also by a name of another
// case, and an exact name is that of the field which is read.
func TestFieldsAreThoseOfEncodingJSON(t *testing.T) {
	types := []reflect.Type{
		reflect.TypeFor[jsonDeep](), reflect.TypeFor[jsonEmbedded](),
		reflect.TypeFor[struct {
			jsonTwiceA
			jsonTwiceB
		}](),
		reflect.TypeFor[struct {
			jsonTwiceA
			jsonTwiceB
			Same int `json:"same"`
		}](),
		reflect.TypeFor[struct {
			jsonLeft
			jsonRight
		}](),
		reflect.TypeFor[struct {
			jsonLeft
			jsonDeep
		}](),
		reflect.TypeFor[struct {
			jsonNumber
			//lint:ignore SA5008 encoding/json reads it as the name "-"
			A int `json:"-,"`
			C int `json:",omitempty"`
			D int `json:"x y"`
			E int `json:"-"`
			F int `json:"\u00e4"`
		}](),
		reflect.TypeFor[struct {
			A int `json:"K"`
			B int `json:"k"`
			C int `json:"\u212a"`
		}](),
		reflect.TypeFor[struct {
			jsonDeep `json:"deep"`
			Deep     int
		}](),
	}
	names := []string{"A", "a", "B", "b", "C", "c", "P", "p", "X", "x", "Same", "SAME", "same", "-", "a\"b", "x y", "X Y", "D", "E", "F",
		"\u00e4", "\u00c4", "K", "k", "\u212a", "deep", "Deep", "DEEP", "jsonDeep", "jsonNumber", "JSONPointer"}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		types = append(types, randomStruct(random))
	}
	for _, typ := range types {
		fields := &structMembers{fields: map[string]reflect.Type{}, folded: map[string]string{}}
		fields.add(typ, map[reflect.Type]bool{})
		for _, name := range names {
			value := reflect.New(typ)
			in := json.NewDecoder(strings.NewReader(fmt.Sprintf(`{%q:5}`, name)))
			in.DisallowUnknownFields()
			err := in.Decode(value.Interface())
			_, exact := fields.fields[name]
			_, ok := fields.folded[fold(name)]
			if read := err == nil || !strings.Contains(err.Error(), "unknown field"); read && !ok || exact && !ok {
				t.Fatalf("seed %d: %v: %q has a field %v, encoding/json says %v", seed, typ, name, ok, err)
			}
		}
	}
}

func randomStruct(random *rand.Rand) reflect.Type {
	tags := []string{"", `json:"a"`, `json:"A"`, `json:"b,omitempty"`, `json:"same"`, `json:"K"`, `json:"-"`, `json:",string"`}
	goNames := []string{"A", "B", "C", "D", "E", "F", "Same", "K", "P", "X"}
	random.Shuffle(len(goNames), func(i, j int) { goNames[i], goNames[j] = goNames[j], goNames[i] })
	var fields []reflect.StructField
	for _, name := range goNames[:1+random.IntN(6)] {
		fields = append(fields, reflect.StructField{
			Name: name, Type: reflect.TypeFor[int](), Tag: reflect.StructTag(tags[random.IntN(len(tags))]),
		})
	}
	if random.IntN(2) == 0 {
		fields = append(fields, reflect.StructField{Name: "JSONPointer", Type: reflect.TypeFor[JSONPointer](), Anonymous: true})
	}
	return reflect.StructOf(fields)
}
