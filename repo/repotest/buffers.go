package repotest

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// buffered is one call of a method, made so that all memory that the caller and the
// store share can be overwritten.
type buffered struct {
	// on is the method's receiver.
	on any
	// args are the arguments after the context; a variadic argument is its slice.
	args []any
	// read reads back what the call wrote or read. Nil: the call itself does.
	read func() any
	// extra returns further buffers, such as those that a function among the
	// arguments got and returned.
	extra func() []any
	// moving: the data may change between two reads, so that they may differ.
	moving bool
}

// bufferCases are calls of an interface's methods, by name. Further calls of a method
// have a name such as "Update/patch".
type bufferCases map[string]func(t *testing.T, r repo.Repositories) buffered

// testBuffers calls every method of an interface and overwrites its arguments and
// results, which must not affect the store. A method without a case fails the test.
// Guarantee: Memory: No method keeps its caller's memory, or returns the store's.
func testBuffers[I any](cases bufferCases) func(t *testing.T, r repo.Repositories) {
	return func(t *testing.T, r repo.Repositories) {
		t.Helper()
		methods := reflect.TypeFor[I]()
		left := maps.Clone(cases)
		for method := range methods.Methods() {
			name := method.Name
			build, found := left[name]
			if !found {
				t.Errorf("%s.%s has no case: what it keeps of its caller's memory is not tested", methods, name)
				continue
			}
			delete(left, name)
			t.Run(name, func(t *testing.T) { overwriteAround(t, name, build(t, r)) })
		}
		for name, build := range left {
			method, _, _ := strings.Cut(name, "/")
			if _, found := methods.MethodByName(method); !found || method == name {
				t.Errorf("%s has no method %s", methods, name)
				continue
			}
			t.Run(name, func(t *testing.T) { overwriteAround(t, method, build(t, r)) })
		}
	}
}

func overwriteAround(t *testing.T, name string, b buffered) {
	t.Helper()
	again := clone(b.args)
	results := call(t, b.on, name, b.args)
	got := clone(results)
	overwrite(b.args)
	if b.extra != nil {
		overwrite(b.extra())
	}
	wantSame(t, "result after the arguments were overwritten", results, got)
	read := b.read
	if read == nil {
		read = func() any { return call(t, b.on, name, clone(again)) }
	}
	first := read()
	wantUntouched(t, "after the arguments were overwritten", first)
	stored := clone(first)
	overwrite(results)
	overwrite(first)
	second := read()
	wantUntouched(t, "after the results were overwritten", second)
	if !b.moving {
		wantSame(t, "reading after the results were overwritten", second, stored)
	}
}

// call calls a method with a context, and returns its results without the error.
func call(t *testing.T, on any, name string, args []any) []any {
	t.Helper()
	for attempt := 1; ; attempt++ {
		values := []reflect.Value{reflect.ValueOf(t.Context())}
		method := reflect.ValueOf(on).MethodByName(name)
		if method.Type().NumIn() == 0 { // Close
			values = nil
		}
		for _, arg := range args {
			values = append(values, reflect.ValueOf(arg))
		}
		var out []reflect.Value
		if method.Type().IsVariadic() {
			out = method.CallSlice(values)
		} else {
			out = method.Call(values)
		}
		var results []any
		var failed error
		for _, value := range out {
			result := value.Interface()
			switch result := result.(type) {
			case error:
				failed = result
			case nil: // no error
			case auditlog.Sink:
				if err := result.Close(); err != nil {
					t.Error(err)
				}
			case iter.Seq2[repo.Message, error]:
				messages, err := collect(result)
				results, failed = append(results, messages), err
			case iter.Seq2[repo.StreamPart, error]:
				parts, err := readParts(result, math.MaxInt)
				results, failed = append(results, parts), err
			case iter.Seq2[repo.Stream, error]:
				for stream, err := range result { // the first: it would wait for others
					results, failed = append(results, stream), err
					break
				}
			default:
				results = append(results, result)
			}
		}
		if errors.Is(failed, repo.ErrContention) && attempt < 100 { // another sealer
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if failed != nil {
			t.Fatalf("%s: %v", name, failed)
		}
		return results
	}
}

// overwritten is what a text or a number is overwritten with.
const (
	overwrittenText   = "~~overwritten~~"
	overwrittenByte   = '~'
	overwrittenNumber = 77_777_777
)

// overwrite changes all memory that a value refers to, except the value's own copy.
func overwrite(value any) { overwriteValue(reflect.ValueOf(value)) }

func overwriteValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			overwriteValue(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			for i := range v.Bytes() {
				v.Bytes()[i] = overwrittenByte
			}
			break
		}
		for i := range v.Len() {
			overwriteValue(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() { // a time refers to nothing
				overwriteValue(v.Field(i))
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
	}
	if !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Uint8:
		v.SetUint(overwrittenByte)
	case reflect.String:
		v.SetString(overwrittenText)
	case reflect.Int, reflect.Int64:
		v.SetInt(overwrittenNumber)
	case reflect.Float64:
		v.SetFloat(overwrittenNumber)
	}
}

// wantUntouched looks for traces of overwrite.
func wantUntouched(t *testing.T, when string, value any) {
	t.Helper()
	if path := findOverwritten(reflect.ValueOf(value)); path != "" {
		t.Errorf("%s the store gives out what its caller wrote, at %s", when, path)
	}
}

func findOverwritten(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return findOverwritten(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			// Random bytes, such as salts, contain a few by chance.
			if n := min(v.Len(), 8); n > 0 && bytes.Contains(v.Bytes(), bytes.Repeat([]byte{overwrittenByte}, n)) {
				return "bytes"
			}
			return ""
		}
		for i := range v.Len() {
			if path := findOverwritten(v.Index(i)); path != "" {
				return "[]" + path
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			if path := findOverwritten(v.Field(i)); path != "" {
				return "." + v.Type().Field(i).Name + path
			}
		}
	case reflect.String:
		if strings.Contains(v.String(), overwrittenText) {
			return "text"
		}
	case reflect.Int, reflect.Int64:
		if v.Int() == overwrittenNumber {
			return "number"
		}
	case reflect.Float64:
		if v.Float() == overwrittenNumber {
			return "number"
		}
	}
	return ""
}

// testLeftAppends has callers whose contexts end during their appends, and who
// reuse their buffers at once. What is stored must be what they passed.
func testLeftAppends(t *testing.T, store repo.Store) {
	const callers, rounds = 24, 6
	s := store.Sessions()
	sessions := []repo.ID{create(t, s), create(t, s)}
	var left counter
	together(callers, func(caller int) {
		for round := range rounds {
			payload := slices.Repeat([]byte("p"), 100_000)
			metadata := slices.Concat([]byte(`{"m":"`), slices.Repeat([]byte("m"), 10_000), []byte(`"}`))
			messages := []repo.NewMessage{{ID: repo.NewID(), Role: repo.RoleTool, Content: "content", Payload: payload, Metadata: metadata}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(caller*round%40)*100*time.Microsecond)
			_, err := s.Append(ctx, sessions[caller%2], messages...)
			cancel()
			overwrite(messages)
			if errors.Is(err, repo.ErrUnknownOutcome) {
				left.add()
			} else if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an append failed for what another caller did to its buffers: %v", err)
			}
		}
	})
	for _, id := range sessions {
		appendTo(t, s, id, user("the last one")) // after all appends in progress
		for _, message := range readAll(t, s, id) {
			wantUntouched(t, "after callers left,", message)
			for _, c := range message.Payload {
				if c != 'p' {
					t.Fatalf("message %d holds the byte %q, which its caller did not give", message.Sequence, c)
				}
			}
		}
	}
	t.Logf("%d callers left while their append was under way", left.get())
}
