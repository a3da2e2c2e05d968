package repotest

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

func bufferTests() []test {
	var tests []test
	for repository := range reflect.TypeFor[repo.Repositories]().Methods() {
		tests = append(tests, test{repository.Name, func(t *testing.T, store repo.Store) {
			testBuffers(t, store, callsOf(repository.Name), repositories(store)[repository.Name])
		}})
	}
	return tests
}

// auditBufferTests are bufferTests of the interfaces that maintain the audit trail, which is that of the whole store.
func auditBufferTests() []test {
	return []test{
		{"BuffersOfAuditLog", func(t *testing.T, store repo.Store) {
			testBuffers(t, store, auditLogCalls, reflect.ValueOf(auditLog(store)))
		}},
		{"BuffersOfSink", func(t *testing.T, store repo.Store) {
			sink, err := auditLog(store).Sink(t.Context())
			must(t, sink, err)
			testBuffers(t, store, sinkCalls, reflect.ValueOf(sink))
		}},
	}
}

// testBuffers makes the calls and overwrites all memory that the caller and the store share, which must not change
// what is in the store.
// Guarantee: Memory: No method keeps its caller's memory, or returns the store's.
func testBuffers(t *testing.T, store repo.Store, calls []call, on reflect.Value) {
	t.Helper()
	for _, c := range calls {
		_, name, _ := strings.Cut(c.name, ".")
		t.Run(name, func(t *testing.T) { overwriteAround(t, c, newFixture(t, store, spaceOf(store)), on) })
	}
}

func overwriteAround(t *testing.T, c call, f *fixture, on reflect.Value) {
	t.Helper()
	args := c.args(f)
	again := clone(args)
	if c.waits > 0 && f.bound {
		if _, err := c.invoke(t.Context(), on, args); !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("in a transaction it gave %v", err)
		}
		return
	}
	answer := func(args []any) (results []any) {
		for attempt := 1; ; attempt++ {
			results, err := c.invoke(t.Context(), on, args)
			if errors.Is(err, repo.ErrContention) && attempt < 100 { // another sealer
				time.Sleep(10 * time.Millisecond) // pace: whichever comes first, it ends
				continue
			}
			if !errors.Is(err, c.fails) {
				t.Fatalf("it gave %v", err)
			}
			return results
		}
	}
	results := answer(args)
	got := clone(results)
	overwrite(args)
	overwrite(f.extra)
	wantSame(t, "result after the arguments were overwritten", results, got)
	read := func() any {
		all := []any{f.read()}
		if c.reads {
			all = append(all, answer(clone(again)))
		}
		return all
	}
	first := read()
	wantUntouched(t, "after the arguments were overwritten", first)
	stored := clone(first)
	overwrite(results)
	overwrite(first)
	second := read()
	wantUntouched(t, "after the results were overwritten", second)
	if !c.moving {
		wantSame(t, "reading after the results were overwritten", second, stored)
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

// testLeftAppends has callers whose contexts end during their appends, and
// that reuse their buffers at once. What is stored must be what they passed.
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
			// short: whether it ends before, during or after the append, the test holds.
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
