package files

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Guarantee: Files: After an erasure, sweeps leave no byte of the person's files.
func TestCanary(t *testing.T) {
	t.Parallel()
	const canary, other = "canary-4711", "sparrow-4712"
	store := pgtest.NewStore(t, agentstore.Options{})
	f := newFiles(t, store, files.Options{})
	for _, person := range []string{canary, other} {
		session, err := store.Sessions().Create(t.Context(), repo.NewSession{Owner: person})
		if err != nil {
			t.Fatal(err)
		}
		for _, owner := range []files.Owner{files.OfSession(session.ID), files.OfUser(person)} {
			file := files.NewFile{Name: person + ".txt", Metadata: json.RawMessage(`{"of":"` + person + `"}`)}
			if _, err := f.Save(t.Context(), owner, file, strings.NewReader("the bytes of "+person)); err != nil {
				t.Fatal(err)
			}
		}
	}
	places := func(name string) (places [2]int) {
		places[0] = pgtest.Value[int](t, store.Pool(), `SELECT count(*) FROM state_values v JOIN state_scopes s ON s.id = v.scope_id
			WHERE strpos(s.name || v.key || v.value::text, $1) > 0`, name)
		places[1] = pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM file_chunks WHERE position($1::text::bytea IN data) > 0", name)
		return places
	}
	if got := places(canary); got[0] == 0 || got[1] != 1 {
		t.Fatal(got)
	}
	_, err := erase.Subject(t.Context(), store, erase.Request{
		Owner: canary, Scopes: []string{files.ScopeOf(canary)}, RequestedBy: "officer", Key: make([]byte, 16),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := places(canary); got[0] != 0 {
		t.Error(got)
	}
	for range 2 {
		for more := true; more; {
			swept, err := f.Sweep(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			more = swept.More
		}
		elapse(t, store, 2*time.Hour)
	}
	if got := places(canary); got != [2]int{} {
		t.Errorf("it is in %d keys and %d rows", got[0], got[1])
	}
	if got := places(other); got[0] == 0 || got[1] != 1 {
		t.Error(got)
	}
}
