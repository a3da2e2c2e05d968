package memory

import (
	"bytes"
	"reflect"

	"github.com/seed-df90f812/agentstore/repo"
)

// What package rules returns shares no memory with the caller, and what is stored never changes. So values are copied
// before they are returned.

// set gives a field another value, if there is one.
func set[V any](field, value *V) {
	if value != nil {
		*field = *value
	}
}

// copyOf returns a copy that shares no memory with the value.
func copyOf[V any](value *V) V {
	copied := *value
	separate(reflect.ValueOf(&copied).Elem())
	return copied
}

// separate replaces what a value refers to by copies.
func separate(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() { // not the inside of a time
				separate(field)
			}
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		copied := reflect.New(v.Type().Elem())
		copied.Elem().Set(v.Elem())
		v.Set(copied)
	case v.Kind() == reflect.Slice && !v.IsNil():
		copied := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(copied, v)
		v.Set(copied)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			separate(v.Index(i))
		}
	}
}

// copyMessage is copyOf for what is copied most.
func copyMessage(m *repo.Message) repo.Message {
	copied := *m
	copied.Metadata, copied.Payload = bytes.Clone(m.Metadata), bytes.Clone(m.Payload)
	return copied
}
