package erase_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/repo/repotest"
)

// A person's name is put into every text of every call. After the erasure nothing that the store in memory holds has it, the
// trail verifies, and another person's session is what it was. The other store: TestCopies/Erased in tests/copies.
// Guarantee: Deletion: After an erasure the store in memory holds nothing of the person.
func TestCanaryInMemory(t *testing.T) {
	t.Parallel()
	store := open(t)
	repotest.Person(t, store, marker, "1")
	sealer, err := audit.NewSealer(store.AuditLog(), audit.SealerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sealer.SealOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	const other = "somebody else"
	id := repotest.Person(t, store, other, "2")
	export := func() string {
		var document bytes.Buffer
		if err := store.Sessions().Export(t.Context(), id, &document); err != nil {
			t.Fatal(err)
		}
		return document.String()
	}
	before, theirs := len(holding(store, marker)), holding(store, other)
	document := export()
	request := erase.Request{Owner: marker, Scopes: []string{marker}, RequestedBy: "officer", Key: key}
	receipt, err := erase.Subject(t.Context(), store, request)
	if err != nil || receipt.Live+receipt.Held > 0 {
		t.Fatalf("%+v, %v", receipt, err)
	}
	if after := holding(store, marker); len(after) > 0 || before == 0 {
		t.Errorf("the store holds it at %d of %d places: %q; %+v", len(after), before, after[0], receipt)
	}
	if after := holding(store, other); len(after) != len(theirs) {
		t.Errorf("the other person's name is at %d places, was at %d", len(after), len(theirs))
	}
	if after := export(); after != document {
		t.Errorf("the other person's session is now %s", after)
	}
	for sealed := 1; sealed > 0; {
		if sealed, err = sealer.SealOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if report, err := audit.Verify(t.Context(), store.AuditLog(), audit.VerifyOptions{}); err != nil || !report.Intact() || report.Erased == 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

// A backup is restored that is older than an erasure: the receipt alone names the scopes and the person everywhere else, too.
// Guarantee: Deletion: A replay erases again everything that receipts name, and may be repeated.
func TestReplayOfEverything(t *testing.T) {
	t.Parallel()
	request := erase.Request{Owner: marker, Scopes: []string{marker}, Key: key, Namespaces: []string{"local"}}
	receipt, err := erase.Subject(t.Context(), open(t), request)
	if err != nil {
		t.Fatal(err)
	}
	restored := open(t)
	repotest.Person(t, restored, marker, "1")
	for again := range 2 {
		done, err := erase.Replay(t.Context(), restored, erase.Request{Key: key}, receipt)
		if err != nil || len(done) != 1-again {
			t.Errorf("%+v, %v", done, err)
		}
	}
	if after := holding(restored, marker); len(after) > 0 {
		t.Errorf("the store holds it at %q", after)
	}
}

// holding walks through all that is reached from a value, and returns the paths to the texts that have a name.
func holding(value any, name string) (paths []string) {
	seen := map[any]bool{}
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.String:
			if strings.Contains(v.String(), name) {
				paths = append(paths, path)
			}
		case reflect.Pointer, reflect.Interface:
			if v.IsNil() {
				return
			}
			if v.Kind() == reflect.Pointer {
				at := [2]any{v.Pointer(), v.Type()}
				if seen[at] {
					return
				}
				seen[at] = true
			}
			walk(v.Elem(), path)
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		case reflect.Map:
			for _, key := range v.MapKeys() {
				walk(key, path+"[key]")
				walk(v.MapIndex(key), path+"[]")
			}
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.Uint8 {
				if bytes.Contains(v.Bytes(), []byte(name)) {
					paths = append(paths, path)
				}
				return
			}
			for i := range v.Len() {
				walk(v.Index(i), path+"[]")
			}
		}
	}
	walk(reflect.ValueOf(value), "")
	return paths
}
