package repotest

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/removal"
)

func deletionTests() []test {
	return []test{
		on("DeleteIf", testDeleteIf),
		on("DeleteIfConflicts", testDeleteIfConflicts),
		on("ListIdle", testListIdle),
		on("RemoveDeleted", testRemoveDeleted),
		on("Hold", testLegalHold),
		onPlans("InUse", testInUse),
		on("Restored", testRestoredIsYoung),
		on("HoldInvalid", testHoldInvalid),
		on("Holds", testHolds),
	}
}

func deletionRaces() []test {
	return []test{
		{"HoldAndDelete", testHoldAndDelete},
		{"HoldAndDeletePlan", testHoldAndDeletePlan},
		{"DeleteIfIdleAndAppend", testDeleteIfIdleAndAppend},
		{"Together", testDeleteTogether},
	}
}

// Guarantee: Deletion: A conditional deletion keeps a session that has changed.
func testDeleteIf(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	stored := appendTo(t, s, id, user("x"))
	_, err := s.Update(t.Context(), id, repo.SessionUpdate{Actor: ptr("x")})
	must(t, id, err)
	_, err = s.Delete(t.Context(), id, repo.DeleteIf{Version: 1})
	conflict, _ := wantError[*repo.VersionConflictError](t, err, repo.ErrConflict)
	if conflict != nil && (conflict.Kind != "session" || conflict.ID != id || conflict.Expected != 1 || conflict.Actual != 2) {
		t.Errorf("%+v", conflict)
	}
	at := get(t, s, id).UpdatedAt
	for _, conditions := range [][]repo.DeleteIf{
		{{IdleSince: at}}, {{IdleSince: at.Add(time.Hour)}, {IdleSince: at}}, {{Version: 2}, {IdleSince: at.Add(-time.Hour)}},
	} {
		_, err = s.Delete(t.Context(), id, conditions...)
		refused, _ := wantError[*repo.RefusedError](t, err, repo.ErrConflict)
		if refused != nil && (refused.Kind != "session" || refused.ID != id) {
			t.Errorf("%+v", refused)
		}
	}
	if got := readAll(t, s, id); len(got) != len(stored) {
		t.Errorf("%d messages after deletions that were refused", len(got))
	}
	for _, messages := range []int64{0, 2} {
		_, err = s.Delete(t.Context(), id, repo.DeleteIf{Messages: &messages})
		_, _ = wantError[*repo.RefusedError](t, err, repo.ErrConflict)
	}
	deleted, err := s.Delete(t.Context(), id, repo.DeleteIf{Messages: ptr(int64(1))}, repo.DeleteIf{Version: 2}, repo.DeleteIf{IdleSince: at.Add(time.Microsecond)})
	if err != nil || deleted.Messages != 1 {
		t.Errorf("%+v, %v", deleted, err)
	}
	_, err = s.Get(t.Context(), id)
	wantNotFound(t, err, "session", id)
}

// What is in use is not deleted for its age, however long ago its last message was, and is when that has ended.
// Guarantee: Deletion: What has open work, a held lease or an open stream outlives its age.
func testInUse(t *testing.T, r repo.Repositories) {
	uses := usesOfSessions(t, r)
	for name, begin := range uses {
		id := create(t, r.Sessions())
		end := begin(id)
		old := repo.DeleteIf{IdleSince: time.Now().Add(time.Hour)}
		_, err := r.Sessions().Delete(t.Context(), id, old)
		if refused, _ := wantError[*repo.RefusedError](t, err, repo.ErrConflict); refused == nil || refused.Kind != "session" || refused.ID != id {
			t.Errorf("%s: %v", name, err)
			continue
		}
		end()
		if _, err := r.Sessions().Delete(t.Context(), id, old); err != nil {
			t.Errorf("%s, after its end: %v", name, err)
		}
	}
	asked := create(t, r.Sessions())
	uses["queued"](asked)
	_, err := r.Sessions().Delete(t.Context(), asked) // by a caller that means it
	must(t, asked, err)
}

// usesOfSessions returns what uses a session, each with what ends that.
func usesOfSessions(t *testing.T, r repo.Repositories) map[string]func(session repo.ID) (end func()) {
	t.Helper()
	action, namespace := plain(t, r), ""
	if v, is := r.(spaced); is {
		namespace = v.Space()
	}
	use := func(use repo.UseAction) repo.ID {
		use.Namespace = namespace
		return usePlan(t, r, action, use).ID
	}
	cancels := func(id repo.ID) func() { return func() { move(t, r, id, repo.TransitionCancel) } }
	return map[string]func(session repo.ID) (end func()){
		"queued": func(session repo.ID) func() { return cancels(use(repo.UseAction{SessionID: session})) },
		"due later": func(session repo.ID) func() {
			return cancels(use(repo.UseAction{SessionID: session, NotBefore: time.Now().Add(time.Hour)}))
		},
		"processing": func(session repo.ID) func() {
			id := use(repo.UseAction{SessionID: session})
			move(t, r, id, repo.TransitionStart)
			return func() { move(t, r, id, repo.TransitionFail) }
		},
		"waits for its next phase": func(session repo.ID) func() {
			id := use(repo.UseAction{SessionID: session})
			move(t, r, id, repo.TransitionStart, repo.TransitionComplete)
			return cancels(id)
		},
		"linked": func(session repo.ID) func() {
			id := use(repo.UseAction{})
			must(t, id, r.Plans().Link(t.Context(), session, id))
			return cancels(id)
		},
		"below": func(session repo.ID) func() {
			top := use(repo.UseAction{SessionID: session})
			below := use(repo.UseAction{ParentID: top})
			move(t, r, top, repo.TransitionStart, repo.TransitionFail)
			return cancels(below)
		},
		"lease": func(session repo.ID) func() {
			lease := acquire(t, r, repo.NewLease{Key: repo.LeaseKey{Kind: repo.LeaseOfSession, Name: session.String()}, Owner: "w"})
			return func() { release(t, r, lease) }
		},
		"stream": func(session repo.ID) func() {
			stream := openStream(t, r, repo.NewStream{Key: randomName(), Session: session, Owner: "w", TTL: time.Hour})
			return func() { must(t, stream, r.Streams().Finish(t.Context(), stream)) }
		},
	}
}

// A session that was deleted for its age, and is restored, has its full age again.
func testRestoredIsYoung(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, user("x"))
	updated := get(t, s, id).UpdatedAt
	var document bytes.Buffer
	must(t, id, s.Export(t.Context(), id, &document))
	old := repo.DeleteIf{IdleSince: updated.Add(time.Microsecond)}
	_, err := s.Delete(t.Context(), id, old)
	must(t, id, err)
	tick()
	restored, err := s.Import(t.Context(), &document, true)
	if must(t, restored, err); !restored.UpdatedAt.Equal(updated) {
		t.Errorf("updated at %v, want %v", restored.UpdatedAt, updated)
	}
	_, err = s.Delete(t.Context(), id, old)
	_, _ = wantError[*repo.RefusedError](t, err, repo.ErrConflict)
	filter := repo.SessionFilter{Namespace: restored.Namespace, AnyOwner: true, IdleSince: old.IdleSince}
	for page := (repo.Page{}); ; {
		list, err := s.List(t.Context(), filter, page)
		must(t, list, err)
		if slices.ContainsFunc(list.Items, func(s repo.Session) bool { return s.ID == id }) {
			t.Error("it is idle already")
		}
		if page.After = list.Next; page.After == "" {
			break
		}
	}
	_, err = s.Delete(t.Context(), id, repo.DeleteIf{IdleSince: time.Now().Add(time.Hour)})
	must(t, id, err)
}

func testDeleteIfConflicts(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	_, err := s.Delete(t.Context(), id, repo.DeleteIf{Version: -1})
	wantInvalid(t, err, "conditions[0].version")
	_, err = s.Delete(t.Context(), id, repo.DeleteIf{Version: 1}, repo.DeleteIf{Version: 2})
	wantInvalid(t, err, "conditions[1].version")
	_, err = s.Delete(t.Context(), id, repo.DeleteIf{Messages: ptr(int64(0))}, repo.DeleteIf{Messages: ptr(int64(1))})
	wantInvalid(t, err, "conditions[1].messages")
	missing := repo.NewID()
	_, err = s.Delete(t.Context(), missing, repo.DeleteIf{Version: 1})
	wantNotFound(t, err, "session", missing)
	wantCount(t, s, id, 0)
}

func testListIdle(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
	var want []repo.ID
	for range 5 {
		want = append(want, createAs(t, s, repo.NewSession{Namespace: namespace}).ID)
		tick()
	}
	since := get(t, s, want[3]).UpdatedAt
	filter := repo.SessionFilter{Namespace: namespace, AnyOwner: true, IdleSince: since}
	var got []repo.ID
	for page := (repo.Page{Limit: 2}); ; {
		list, err := s.List(t.Context(), filter, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, session := range list.Items {
			got = append(got, session.ID)
		}
		if page.After = list.Next; page.After == "" {
			break
		}
	}
	if !slices.Equal(got, want[:3]) {
		t.Errorf("got %v, want %v", got, want[:3])
	}
	appendTo(t, s, want[0], user("x"))
	list, err := s.List(t.Context(), filter, repo.Page{})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("%d sessions are idle after an append to one of three, %v", len(list.Items), err)
	}
	for field, filter := range map[string]repo.SessionFilter{
		"owner": {Owner: "x", IdleSince: since}, "by_activity": {AnyOwner: true, ByActivity: true, IdleSince: since},
		"actor": {AnyOwner: true, Actor: "x", IdleSince: since}, "created_from": {AnyOwner: true, CreatedFrom: since, IdleSince: since},
	} {
		_, err := s.List(t.Context(), filter, repo.Page{})
		wantInvalid(t, err, field)
	}
}

// However many messages, turns and usages a session has, it is gone at once, and RemoveDeleted comes to an end.
// Guarantee: Deletion: A session of any size is gone at once; a transaction removes at most 1,000 rows.
func testRemoveDeleted(t *testing.T, s repo.Sessions) {
	_, _, err := s.RemoveDeleted(t.Context(), -1)
	wantInvalid(t, err, "limit")
	id := create(t, s)
	for range 3 {
		appendTo(t, s, id, users(1000)...)
	}
	deleted, err := s.Delete(t.Context(), id)
	if err != nil || deleted.Messages != 3000 {
		t.Fatalf("%+v, %v", deleted, err)
	}
	_, err = s.LastMessages(t.Context(), id, 1)
	wantNotFound(t, err, "session", id)
	for more := true; more; {
		var removed int64
		if removed, more, err = s.RemoveDeleted(t.Context(), 700); err != nil || removed > 700 {
			t.Fatal(removed, err)
		}
	}
}

// Guarantee: Deletion: A legal hold on a session, owner or namespace wins over every deletion.
func testLegalHold(t *testing.T, s repo.Sessions) {
	owned := createAs(t, s, repo.NewSession{Namespace: spaceOf(s), Owner: "somebody"})
	other := createAs(t, s, repo.NewSession{Namespace: owned.Namespace})
	holds := []repo.LegalHold{
		{SessionID: owned.ID, Reason: "a"}, {Namespace: owned.Namespace, Owner: "somebody", Reason: "b"}, {Namespace: owned.Namespace, Reason: "c"},
	}
	for i, hold := range holds {
		for range 2 {
			if err := s.AddHold(t.Context(), hold); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.Delete(t.Context(), owned.ID, repo.DeleteIf{Version: 7})
		refused, _ := wantError[*repo.RefusedError](t, err, repo.ErrConflict)
		if refused != nil && (refused.Kind != "hold" || refused.ID != owned.ID) {
			t.Errorf("%+v", refused)
		}
		if i == 2 {
			_, err := s.Delete(t.Context(), other.ID)
			_, _ = wantError[*repo.RefusedError](t, err, repo.ErrConflict)
		}
		hold.Reason = ""
		for range 2 {
			if err := s.RemoveHold(t.Context(), hold); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.AddHold(t.Context(), repo.LegalHold{Namespace: owned.Namespace, Owner: "somebody else", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []repo.ID{owned.ID, other.ID} {
		remove(t, s, id)
	}
	wantNotFound(t, s.AddHold(t.Context(), holds[0]), "session", owned.ID)
}

func testHoldInvalid(t *testing.T, s repo.Sessions) {
	for field, hold := range map[string]repo.LegalHold{
		"hold":           {Reason: "x"},
		"hold.owner":     {SessionID: repo.NewID(), Owner: "x", Reason: "x"},
		"hold.namespace": {Namespace: "\x00", Reason: "x"},
		"hold.reason":    {Namespace: "x"},
	} {
		wantInvalid(t, s.AddHold(t.Context(), hold), field)
	}
	wantInvalid(t, s.AddHold(t.Context(), repo.LegalHold{SessionID: repo.NewID(), Namespace: "x", Reason: "x"}), "hold")
	wantInvalid(t, s.RemoveHold(t.Context(), repo.LegalHold{}), "hold")
}

func testHolds(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
	want := []repo.LegalHold{{SessionID: create(t, s)}, {Namespace: namespace}, {Namespace: namespace, Owner: "a"}, {Namespace: namespace, Owner: "b"}}
	for _, hold := range want {
		hold.Reason = "because"
		if err := s.AddHold(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	}
	var got []repo.LegalHold
	for page := (repo.Page{Limit: 1}); ; {
		list, err := s.Holds(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		for _, hold := range list.Items {
			if hold.Reason == "because" && (hold.SessionID == want[0].SessionID || hold.Namespace == namespace) {
				if hold.CreatedAt.IsZero() {
					t.Error("a hold without a time")
				}
				got = append(got, repo.LegalHold{SessionID: hold.SessionID, Namespace: hold.Namespace, Owner: hold.Owner})
			}
		}
		if page.After = list.Next; page.After == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got the holds %+v, want %+v", got, want)
	}
	for _, hold := range want {
		if err := s.RemoveHold(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	}
}

// A hold and a deletion at the same time: either the session is gone, and the hold says so, or it stays.
func testHoldAndDelete(t *testing.T, store repo.Store) {
	s := store.Sessions()
	for round := range 60 {
		session := createAs(t, s, repo.NewSession{Namespace: spaceOf(store), Owner: "somebody"})
		hold := repo.LegalHold{SessionID: session.ID, Reason: "x"}
		if round%2 == 0 {
			hold = repo.LegalHold{Namespace: session.Namespace, Owner: "somebody", Reason: "x"}
		}
		var held, deleted error
		both(func() { held = s.AddHold(t.Context(), hold) }, func() { deleted = deleteBy(t, store, round/2, removal.Deletion{ID: session.ID}) })
		_, err := s.Get(t.Context(), session.ID)
		exists := err == nil
		switch {
		case exists && (held != nil || deleted == nil), !exists && deleted != nil:
			t.Fatalf("round %d: exists %t, hold %v, delete %v", round, exists, held, deleted)
		case !exists && round%2 == 1:
			wantNotFound(t, held, "session", session.ID)
		}
		if _, err := s.Delete(t.Context(), session.ID); exists && err == nil {
			t.Fatal("deleted, although it is held")
		}
		if err := s.RemoveHold(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	}
}

// The same of a plan, which goes with what is below it, by a call or because it was kept long enough: a hold that was made
// before the plan went finds it.
func testHoldAndDeletePlan(t *testing.T, store repo.Store) {
	action := createAction(t, store, repo.ActionDefinition{Reusable: true, Keep: time.Microsecond})
	for round := range 20 {
		session := createAs(t, store.Sessions(), repo.NewSession{Namespace: spaceOf(store)})
		plan := usePlan(t, store, action, repo.UseAction{Namespace: session.Namespace, SessionID: session.ID})
		move(t, store, plan.ID, repo.TransitionCancel)
		hold := repo.LegalHold{SessionID: session.ID, Reason: "x"}
		var there bool
		var deleted error
		both(func() {
			if err := store.Sessions().AddHold(t.Context(), hold); err != nil {
				t.Error(err)
			}
			_, err := store.Plans().Get(t.Context(), plan.ID)
			there = err == nil
		}, func() {
			if round%2 == 0 {
				deleted = store.Plans().Delete(t.Context(), plan.ID)
			} else {
				sweep(t, store)
			}
		})
		if _, err := store.Plans().Get(t.Context(), plan.ID); there != (err == nil) || round%2 == 0 && there == (deleted == nil) {
			t.Fatalf("round %d: there when the hold was made: %t, then %v; delete %v", round, there, err, deleted)
		}
		if err := store.Sessions().RemoveHold(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	}
}

// An append whose answer came before a deletion that requires idleness is never lost by it.
func testDeleteIfIdleAndAppend(t *testing.T, store repo.Store) {
	s := store.Sessions()
	for round := range 20 {
		id := create(t, s)
		d := removal.Deletion{ID: id, If: repo.DeleteIf{IdleSince: get(t, s, id).UpdatedAt.Add(time.Microsecond)}}
		var appended, deleted error
		both(func() { _, appended = s.Append(t.Context(), id, user("x")) }, func() { deleted = deleteBy(t, store, round, d) })
		if (appended == nil) == (deleted == nil) || appended != nil && !errors.Is(appended, repo.ErrNotFound) ||
			deleted != nil && !errors.Is(deleted, repo.ErrConflict) && !errors.Is(deleted, repo.ErrContention) {
			t.Fatalf("append %v, delete %v", appended, deleted)
		}
	}
}

// deleteBy deletes a session by the one way or the other.
func deleteBy(t *testing.T, store repo.Store, way int, d removal.Deletion) error {
	if way%2 == 0 {
		_, err := store.Sessions().Delete(t.Context(), d.ID, d.If)
		return err
	}
	all := []removal.Deletion{d}
	removal.Delete(t.Context(), store, all)
	return all[0].Err
}

// Of sessions that are deleted together each has its own conditions, holds and counts.
// Guarantee: Deletion: Sessions deleted together go or stay each on its own conditions.
func testDeleteTogether(t *testing.T, store repo.Store) {
	s := store.Sessions()
	plain, held, changed, active, forked := create(t, s), create(t, s), create(t, s), create(t, s), create(t, s)
	appendTo(t, s, plain, users(3)...)
	_, err := store.State().Change(t.Context(), []repo.StateChange{set(repo.Scope{SessionID: plain}, "k", "1")})
	must(t, plain, err)
	must(t, held, s.AddHold(t.Context(), repo.LegalHold{SessionID: held, Reason: "x"}))
	appendTo(t, s, forked, users(5)...)
	fork, err := s.Fork(t.Context(), forked, 2, repo.NewSession{})
	must(t, forked, err)
	missing := repo.NewID()
	all := []removal.Deletion{
		{ID: plain, If: repo.DeleteIf{Version: 1}},
		{ID: held},
		{ID: changed, If: repo.DeleteIf{Version: 7}},
		{ID: active, If: repo.DeleteIf{IdleSince: get(t, s, active).UpdatedAt}},
		{ID: missing},
		{ID: forked},
		{ID: plain},
	}
	removal.Delete(t.Context(), store, all)
	wantSame(t, "first", must(t, all[0].Deleted, all[0].Err), repo.DeletedSession{Messages: 3, StateKeys: 1})
	for i, kind := range map[int]string{1: "hold", 3: "session"} {
		if refused, is := errors.AsType[*repo.RefusedError](all[i].Err); !is || refused.Kind != kind || refused.ID != all[i].ID {
			t.Errorf("%+v", all[i])
		}
	}
	if conflict, is := errors.AsType[*repo.VersionConflictError](all[2].Err); !is || conflict.Actual != 1 {
		t.Errorf("%+v", all[2])
	}
	wantSame(t, "forked one", must(t, all[5].Deleted, all[5].Err), repo.DeletedSession{Messages: 2, Kept: 3})
	wantNotFound(t, all[4].Err, "session", missing)
	wantNotFound(t, all[6].Err, "session", plain)
	if got := readAll(t, s, fork.ID); len(got) != 3 {
		t.Errorf("the fork has %d messages", len(got))
	}
	for _, id := range []repo.ID{held, changed, active} {
		get(t, s, id)
	}
	must(t, held, s.RemoveHold(t.Context(), repo.LegalHold{SessionID: held}))
	removal.Delete(t.Context(), store, nil)
}

func both(calls ...func()) {
	var running sync.WaitGroup
	for _, call := range calls {
		running.Go(call)
	}
	running.Wait()
}
