package postgres

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Each statement that appends stores the calls of its messages, and no others: alone,
// for several sessions, after a wait, in a transaction and by an import.
// Guarantee: Messages: The messages of a call are found by its id.
func TestEachAppendStoresItsCalls(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	sessions := store.Sessions()
	batch := []repo.NewMessage{user("before"), user("call"), user("between"), user("result"), user("after")}
	batch[1].CallID, batch[3].CallID, batch[1].Kind, batch[4].Kind = "c", "c", "call", "last"
	named := slices.Clone(batch)
	for i := range named {
		named[i].ID = repo.NewID()
	}
	var ids []repo.ID
	check := func(what string, id repo.ID, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		ids = append(ids, id)
		all, err := sessions.MessagesFrom(t.Context(), id, 0, 0)
		if err != nil || len(all) != len(batch) {
			t.Errorf("%s: %d messages, %v", what, len(all), err)
			return
		}
		for i := range batch {
			if all[i].Kind != batch[i].Kind || all[i].CallID != batch[i].CallID {
				t.Errorf("%s: message %d is of the kind %q and the call %q", what, i, all[i].Kind, all[i].CallID)
			}
		}
		found, err := sessions.MessagesOfCall(t.Context(), id, "c")
		if err != nil || len(found) != 2 || found[0].Sequence != 1 || found[1].Sequence != 3 {
			t.Errorf("%s: of the call are found %v, %v", what, found, err)
		}
	}
	newID := func() repo.ID { return pgtest.NewSession(t, store) }

	id := newID()
	_, err := sessions.Append(t.Context(), id, batch...)
	check("alone", id, err)
	id = newID()
	for range 2 {
		_, err = sessions.Append(t.Context(), id, named...)
	}
	check("by their ids", id, err)
	id = newID()
	_, err = appendAt(t.Context(), sessions, id, 0, batch...)
	check("at a sequence", id, err)
	id = newID()
	for _, message := range batch {
		if _, err = sessions.Append(t.Context(), id, message); err != nil {
			break
		}
	}
	check("one by one", id, err)
	id = newID()
	check("in a transaction", id, store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		_, err := tx.Sessions().Append(ctx, id, batch...)
		return err
	}))
	id = newID()
	duringItsWait(t, store, func(tx repo.Repositories) error {
		_, err := tx.Sessions().Append(t.Context(), id, batch[:2]...)
		return err
	}, func() error {
		_, err := sessions.Append(t.Context(), id, batch[2:]...)
		return err
	})
	check("after a wait", id, nil)

	// Sessions of one group, of which some have no calls.
	narrow, others := openNarrow(t)
	grouped := make([]repo.ID, 6)
	var appends []func()
	for i := range grouped {
		grouped[i] = pgtest.NewSession(t, narrow)
		appends = append(appends, func() {
			messages := batch
			if i%2 == 1 {
				messages = []repo.NewMessage{user("x"), user("y")}
			}
			if _, err := narrow.Sessions().Append(t.Context(), grouped[i], messages...); err != nil {
				t.Error(err)
			}
		})
	}
	inOneGroup(t, narrow, others, appends...)
	sessions = narrow.Sessions()
	for i := 0; i < len(grouped); i += 2 {
		check("in a group", grouped[i], nil)
	}
	sessions = store.Sessions()

	id = ids[0]
	var document bytes.Buffer
	if err := sessions.Export(t.Context(), id, &document); err != nil {
		t.Fatal(err)
	}
	if _, err := sessions.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_, err = sessions.Import(t.Context(), &document, true)
	check("imported", id, err)
}
