package repotest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	documents "github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/repo"
)

// apartTests are about what a view knows, and when.
var apartTests = []struct {
	name string
	run  func(t *testing.T, one, other repo.Store, otherNamespace string)
}{
	{"RolledBack", testApartRolledBack},
	{"IDOfPlan", testApartIDOfPlan},
	{"Creations", testApartCreations},
	{"CreationBehind", testApartCreationBehind},
	{"Restored", testApartRestored},
	{"EqualKeys", testApartEqualKeys},
	{"OtherFaults", testApartOtherFaults},
}

// What a view made in a transaction that was rolled back is not its own later: another view may have
// the id by then.
func testApartRolledBack(t *testing.T, one, other repo.Store, _ string) {
	id := repo.NewID()
	err := one.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.Sessions().Create(ctx, repo.NewSession{ID: id}); err != nil {
			return err
		}
		if _, err := tx.Sessions().Append(ctx, id, user("x")); err != nil {
			return err
		}
		return errOver
	})
	if !errors.Is(err, errOver) {
		t.Fatal(err)
	}
	createAs(t, other.Sessions(), repo.NewSession{ID: id})
	_, err = one.Sessions().Append(t.Context(), id, user("x"))
	wantNotFound(t, err, "session", id)
}

// A session's id may be another caller's plan's.
func testApartIDOfPlan(t *testing.T, one, other repo.Store, namespace string) {
	f := newFixture(t, other, namespace)
	for _, id := range []repo.ID{f.plan(), f.moved(repo.TransitionStart), f.stream().ID} {
		createAs(t, one.Sessions(), repo.NewSession{ID: id})
	}
	methods := []string{
		"Plans.Get", "Plans.History", "Plans.Transition", "Plans.Progress", "Leases.Acquire", "Streams.Append", "Streams.Finish",
	}
	for _, method := range methods {
		f.wantApart(t.Context(), one, method)
	}
}

// Of two views that create a session with one id at the same time, one has it, and the other has added
// nothing to it.
// Guarantee: Views: Of views that create a session with one id at once, one has it; the others have added nothing.
func testApartCreations(t *testing.T, one, other repo.Store, _ string) {
	for range 50 {
		id := repo.NewID()
		together(4, func(caller int) {
			create := &repo.NewSession{ID: id}
			switch caller {
			case 0:
				_, _ = other.Sessions().Create(t.Context(), *create)
			case 1:
				_, _ = other.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: []repo.NewMessage{user("other")}, Create: create})
			case 2:
				_, _ = one.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: []repo.NewMessage{user("one")}, Create: create})
			case 3:
				turn := repo.Turn{SessionID: id, Messages: []repo.NewMessage{user("one")}, Create: create}
				_, _ = one.Sessions().AppendTurn(t.Context(), turn)
				_, _ = one.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: []repo.NewMessage{user("one")}})
			}
		})
		owner, content := one, "one"
		if _, err := one.Sessions().Get(t.Context(), id); err != nil {
			wantNotFound(t, err, "session", id)
			owner, content = other, "other"
		} else {
			_, err := other.Sessions().Get(t.Context(), id)
			wantNotFound(t, err, "session", id)
		}
		for _, message := range readAll(t, owner.Sessions(), id) {
			if message.Content != content {
				t.Fatalf("the session of %s has a message of %s", content, message.Content)
			}
		}
	}
}

// The one view has not found the session, and waits while the other one creates it.
func testApartCreationBehind(t *testing.T, one, other repo.Store, _ string) {
	id, behind := repo.NewID(), make(chan error, 1)
	err := other.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		_, err := tx.Sessions().Create(ctx, repo.NewSession{ID: id})
		go func() {
			_, err := one.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: users(1), Create: &repo.NewSession{ID: id}})
			behind <- err
		}()
		time.Sleep(50 * time.Millisecond) // pace: it may be waiting by now
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-behind; !errors.Is(err, repo.ErrConflict) {
		t.Errorf("the turn of the other view gave %v", err)
	}
	if got := readAll(t, other.Sessions(), id); len(got) != 0 {
		t.Errorf("the session has %d messages", len(got))
	}
}

// A deleted session is not restored to another namespace, whose view could then be asked for it by
// callers that know it.
func testApartRestored(t *testing.T, one, other repo.Store, _ string) {
	id := create(t, other.Sessions())
	exported := export(t, other.Sessions(), id)
	remove(t, other.Sessions(), id)
	own := createAs(t, one.Sessions(), repo.NewSession{})
	var document bytes.Buffer
	writer, err := documents.NewWriter(&document, repo.Session{
		ID: id, Namespace: own.Namespace, Metadata: own.Metadata, CreatedAt: own.CreatedAt, UpdatedAt: own.UpdatedAt,
	}, nil)
	if err = cmp.Or(err, writer.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = one.Sessions().Import(t.Context(), &document, true)
	if !errors.Is(err, repo.ErrImport) || !errors.Is(err, repo.ErrConflict) {
		t.Errorf("restoring to another namespace gave %v", err)
	}
	session, err := other.Sessions().Import(t.Context(), bytes.NewReader(exported), true)
	must(t, session, err)
}

// What is wrong besides is answered as if the other view's session did not exist: before it, or of turns in their order.
func testApartOtherFaults(t *testing.T, one, other repo.Store, _ string) {
	own, foreign := create(t, one.Sessions()), create(t, other.Sessions())
	for _, id := range []repo.ID{foreign, repo.NewID()} {
		_, err := one.Sessions().MessagesFrom(t.Context(), id, -1, 0)
		wantInvalid(t, err, "from")
		_, err = one.Sessions().Append(t.Context(), id)
		wantInvalid(t, err, "messages")
		_, err = one.State().Get(t.Context(), repo.Scope{SessionID: id}, "")
		wantInvalid(t, err, "key")
		_, err = one.Plans().Transition(t.Context(), id, "x", repo.Cause{})
		wantInvalid(t, err, "transition")
		turn := repo.Turn{SessionID: id, Messages: users(1), Expected: ptr(int64(1)), State: []repo.StateChange{{Key: "k", Value: []byte("1")}}}
		_, err = one.Sessions().AppendTurn(t.Context(), turn)
		wantNotFound(t, err, "session", id)
		_, err = one.State().Read(t.Context(), repo.Scope{SessionID: own}, repo.Scope{SessionID: id})
		wantNotFound(t, err, "session", id)
	}
}

// Guarantee: Views: Shared scopes, leases and streams of equal names in two views are different ones.
func testApartEqualKeys(t *testing.T, one, other repo.Store, _ string) {
	name, key := randomName(), repo.LeaseKey{Kind: "k", Name: randomName()}
	for _, view := range []repo.Store{one, other} {
		lease, err := view.Leases().Acquire(t.Context(), repo.NewLease{Key: key, Owner: "owner"})
		if must(t, lease, err).Key != key {
			t.Errorf("the lease is of %v", lease.Key)
		}
		scope := repo.Scope{Name: name}
		changed, err := view.State().Change(t.Context(), []repo.StateChange{{Scope: scope, Key: "k", Op: repo.StateIncrement, By: 1}})
		if must(t, changed, err)[0].Scope != scope {
			t.Errorf("the scope is %v", changed[0].Scope)
		}
		value, err := view.State().Get(t.Context(), scope, "k")
		wantSame(t, "the value", string(must(t, value, err).Value), "1")
		stream, err := view.Streams().Open(t.Context(), repo.NewStream{Key: name, Owner: "owner"})
		if must(t, stream, err).Key != name || stream.Next != 0 {
			t.Errorf("the stream is %v", stream)
		}
		next, err := view.Streams().Append(t.Context(), stream, []byte("x"))
		must(t, next, err)
		page, err := view.Leases().List(t.Context(), repo.LeaseFilter{Kind: "k", Name: key.Name}, repo.Page{})
		if must(t, page, err); len(page.Items) != 1 || page.Items[0].Key != key {
			t.Errorf("the leases are %v", page.Items)
		}
		renewed, err := view.Leases().Renew(t.Context(), lease, 0)
		must(t, renewed, err)
		session := create(t, view.Sessions())
		turn, err := view.Sessions().AppendTurn(t.Context(), repo.Turn{
			SessionID: session, State: []repo.StateChange{{Scope: scope, Key: "k", Op: repo.StateIncrement, By: 1}},
		})
		if must(t, turn, err).Scopes[0].Scope != scope {
			t.Errorf("the scope is %v", turn.Scopes[0].Scope)
		}
		_, err = view.State().Change(t.Context(), []repo.StateChange{{Scope: scope, Key: "k", Op: repo.StateRemove}}, repo.ScopeVersion{Scope: scope, Version: 1})
		conflict, _ := wantError[*repo.VersionConflictError](t, err, repo.ErrConflict)
		wantSame(t, "the conflict", conflict.Scope, scope)
		keys, err := view.State().Erase(t.Context(), name)
		wantSame(t, "the keys", must(t, keys, err), 1)
		entries, err := view.Audit().List(t.Context(), repo.AuditFilter{Type: "entity_deleted"}, repo.Page{})
		if must(t, entries, err); len(entries.Items) == 0 {
			t.Error("the view has no entry of the erasure")
		}
		released, err := view.Leases().ReleaseAll(t.Context(), "owner")
		wantSame(t, "the leases", must(t, released, err), 1)
	}
}

// ApartFromWhole has the whole store make plans of its own for a view's session: by a turn and by a link. A caller that reads the
// session, or repeats the turn, through the view gets neither, nor learns that they are there.
// Guarantee: Views: A view gets no plan of another namespace from its own sessions and turns.
func ApartFromWhole(t *testing.T, whole, one repo.Store) {
	t.Helper()
	for _, inside := range []bool{false, true} {
		id, action := create(t, one.Sessions()), plain(t, whole)
		turn := repo.Turn{SessionID: id, ID: randomName(), Messages: users(1), Action: action, Existing: true}
		made, err := whole.Sessions().AppendTurn(t.Context(), turn)
		if must(t, made, err).Plan == nil {
			t.Fatal("the turn has made no plan")
		}
		planID := made.Plan.ID
		wantSame(t, "plans of the whole store's session", len(get(t, whole.Sessions(), id).Plans), 1)
		ask := func(r repo.Repositories) {
			read, err := r.Sessions().Turn(t.Context(), id, turn.ID)
			if must(t, read, err).Plan != nil {
				t.Errorf("the turn that is read has the plan %v", read.Plan.ID)
			}
			turn := turn
			turn.Action = ""
			again, err := r.Sessions().AppendTurn(t.Context(), turn)
			if must(t, again, err); again.Plan != nil || !again.Repeated {
				t.Errorf("the turn again: %+v", again)
			}
			list, err := r.Sessions().List(t.Context(), repo.SessionFilter{AnyOwner: true}, repo.Page{})
			sessions := must(t, list, err).Items
			snapshot, err := r.Sessions().Read(t.Context(), repo.ReadSessions{IDs: []repo.ID{id}})
			sessions = append(sessions, must(t, snapshot, err).Sessions[0].Session, get(t, r.Sessions(), id))
			updated, err := r.Sessions().Update(t.Context(), id, repo.SessionUpdate{MetadataPatch: json.RawMessage(`{"a":1}`)})
			for _, session := range append(sessions, must(t, updated, err)) {
				if len(session.Plans) > 0 {
					t.Errorf("the session has the plans %+v", session.Plans)
				}
			}
			if document := export(t, r.Sessions(), id); bytes.Contains(document, []byte(planID.String())) {
				t.Errorf("the document names the plan: %s", document)
			}
			_, err = r.Plans().Get(t.Context(), planID)
			wantNotFound(t, err, "plan", planID)
			_, err = r.Plans().Transition(t.Context(), planID, repo.TransitionCancel, repo.Cause{Reason: "x"})
			wantNotFound(t, err, "plan", planID)
			_, err = r.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.LeaseKey{Kind: repo.LeaseOfPlan, Name: planID.String()}, Owner: "me"})
			wantNotFound(t, err, "plan", planID)
			wantNotFound(t, r.Plans().Delete(t.Context(), planID), "plan", planID)
		}
		if !inside {
			ask(one)
		} else if err := one.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error { ask(tx); return nil }); err != nil {
			t.Error(err)
		}
		plan, err := whole.Plans().Get(t.Context(), planID)
		wantSame(t, "plan afterwards", must(t, plan, err), *made.Plan)
	}
}
