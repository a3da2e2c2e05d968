package repotest

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/removal"
)

// OldTurns tests the removal of records of turns in a store without other users: a turn that is repeated is recognised until then,
// and added again afterwards. A dry run counts the same, and what a hold keeps stays, and is counted once. run removes what is
// older, or says what it would.
func OldTurns(t *testing.T, store removal.Keeper, run func(age time.Duration, dryRun bool) (removed, held int64)) {
	t.Helper()
	s := store.Sessions()
	const each = 13
	ids := []repo.ID{create(t, s), create(t, s)}
	must(t, ids, s.AddHold(t.Context(), repo.LegalHold{SessionID: ids[1], Reason: "x"}))
	add := func(again ...bool) {
		t.Helper()
		for i, id := range ids {
			for n := range each {
				turn := repo.Turn{SessionID: id, ID: string(rune('a' + n)), Messages: users(2)}
				if added, err := s.AppendTurn(t.Context(), turn); err != nil || added.Repeated != again[i] {
					t.Errorf("turn %d of session %d: repeated %t, %v", n, i, added.Repeated, err)
				}
			}
		}
	}
	check := func(age time.Duration, dryRun bool, want int64) {
		t.Helper()
		if removed, held := run(age, dryRun); removed != want || held != want {
			t.Errorf("%d removed, %d held; want %d of each", removed, held, want)
		}
	}
	add(false, false)
	check(time.Hour, false, 0)
	add(true, true)
	passes(t, 2*time.Millisecond)
	check(time.Millisecond, true, each)
	add(true, true)
	check(time.Millisecond, false, each)
	add(false, true)
	passes(t, 2*time.Millisecond)
	removed, held := int64(0), int64(0)
	for next, more := (time.Time{}), true; more; more = !next.IsZero() {
		gone, kept, reached, err := store.Removal().RemoveTurns(t.Context(), next, time.Now(), 5, false)
		if err != nil {
			t.Fatal(err)
		}
		removed, held, next = removed+gone, held+kept, reached
	}
	if removed != each || held != each {
		t.Errorf("in small batches %d removed, %d held", removed, held)
	}
	for _, id := range ids {
		wantCount(t, s, id, map[bool]int{true: 4 * each, false: 2 * each}[id == ids[0]])
	}
}

// DryRun tests that a dry run counts what the run then removes, in a store without other users: of forks and rewound sessions, and
// of what is in use, and of plans that are held or have work themselves, or by what is below them.
func DryRun(t *testing.T, store repo.Store, run func(age time.Duration, dryRun bool) Removed) {
	t.Helper()
	s, action := store.Sessions(), plain(t, store)
	stays := createAs(t, s, repo.NewSession{Namespace: "stays"}).ID
	appendTo(t, s, stays, users(5)...)
	parent, rewound := create(t, s), create(t, s)
	appendTo(t, s, parent, users(4)...)
	for _, of := range []repo.ID{stays, parent} {
		fork, err := s.Fork(t.Context(), of, 2, repo.NewSession{Namespace: repo.DefaultNamespace})
		must(t, fork, err)
		appendTo(t, s, fork.ID, users(2)...)
	}
	appendTo(t, s, rewound, users(4)...)
	turnOn(t, s, rewound, repo.Turn{After: ptr(int64(1)), Messages: users(1)})
	held := createAs(t, s, repo.NewSession{Owner: "held"}).ID
	must(t, held, s.AddHold(t.Context(), repo.LegalHold{Namespace: repo.DefaultNamespace, Owner: "held", Reason: "x"}))
	for i, child := range []repo.UseAction{{}, {}, {SessionID: held}} {
		top := usePlan(t, store, action, repo.UseAction{Namespace: repo.DefaultNamespace})
		move(t, store, top.ID, repo.TransitionStart)
		child.ParentID, child.Namespace = top.ID, top.Namespace
		below := usePlan(t, store, action, child)
		if i != 1 {
			move(t, store, below.ID, repo.TransitionCancel)
		}
		for _, enter := range []repo.Transition{repo.TransitionExecute, repo.TransitionApply} {
			move(t, store, top.ID, repo.TransitionComplete, enter, repo.TransitionStart)
		}
		move(t, store, top.ID, repo.TransitionComplete)
	}
	move(t, store, usePlan(t, store, action, repo.UseAction{Namespace: repo.DefaultNamespace, SessionID: held}).ID, repo.TransitionCancel)
	busy := create(t, s)
	usePlan(t, store, action, repo.UseAction{Namespace: repo.DefaultNamespace, SessionID: busy})
	passes(t, 2*time.Millisecond)
	would, did := run(time.Millisecond, true), run(time.Millisecond, false)
	if would != did || did.Sessions != 4 || did.Plans != 1 || did.Held != 3 || did.InUse != 2 {
		t.Errorf("a dry run says %+v; the run did %+v", would, did)
	}
	for _, id := range []repo.ID{held, busy} {
		get(t, s, id)
	}
}

// Removed is what a run has removed of a namespace: sessions with the messages that are theirs, and plans.
type Removed struct{ Sessions, Messages, Plans, Held, InUse int64 }

// Has tests what a namespace has, in a store without other users.
func Has(t *testing.T, store interface {
	removal.Keeper
	In(namespace string) repo.Store
},
) {
	t.Helper()
	for kind, does := range map[string]func(repo.Store){
		"nothing": func(repo.Store) {},
		"session": func(s repo.Store) { create(t, s.Sessions()) },
		"action": func(s repo.Store) {
			_, err := s.Actions().Create(t.Context(), repo.NewAction{Name: "a"})
			must(t, "a", err)
		},
		"stream": func(s repo.Store) { openStream(t, s, repo.NewStream{Key: "key", Owner: "x"}) },
		"scope":  func(s repo.Store) { change(t, s, set(repo.Scope{Name: "n"}, "k", "1")) },
		"lease":  func(s repo.Store) { acquire(t, s, repo.NewLease{Key: repo.LeaseKey{Kind: "k", Name: "n"}, Owner: "x"}) },
	} {
		does(store.In(kind))
		if has, err := store.Removal().Has(t.Context(), kind); err != nil || has != (kind != "nothing") {
			t.Errorf("%s: %t, %v", kind, has, err)
		}
	}
	usePlan(t, store, plain(t, store), repo.UseAction{Namespace: "plan"})
	if has, err := store.Removal().Has(t.Context(), "plan"); err != nil || !has {
		t.Errorf("a plan: %t, %v", has, err)
	}
}
