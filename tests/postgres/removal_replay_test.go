package postgres

import (
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A replay finds the person's names among all that are stored, beside scopes without one, which are sessions' own.
func TestReplay(t *testing.T) {
	t.Parallel()
	const person = "jane@example.com"
	request := erase.Request{Owner: person, Scopes: []string{person}, Key: []byte("the key of the receipts")}
	receipt, err := erase.Subject(t.Context(), pgtest.NewStore(t, agentstore.Options{}), request)
	if err != nil {
		t.Fatal(err)
	}
	restored := pgtest.NewStore(t, agentstore.Options{})
	repotest.Person(t, restored, person, "1")
	other := repotest.Person(t, restored, "somebody else", "2")
	for again := range 2 {
		done, err := erase.Replay(t.Context(), restored, erase.Request{Key: request.Key}, receipt)
		if err != nil || len(done) != 1-again || again == 0 && (done[0].Sessions != 2 || done[0].StateKeys == 0) {
			t.Errorf("%+v, %v", done, err)
		}
	}
	if _, err := restored.Sessions().Get(t.Context(), other); err != nil {
		t.Errorf("the other person's session: %v", err)
	}
}
