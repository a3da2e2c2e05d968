package repotest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

// asking returns a turn that makes a plan and opens a stream, in a queue of its own.
func asking(t *testing.T, r repo.Repositories) repo.Turn {
	t.Helper()
	action := createAction(t, r, repo.ActionDefinition{Reusable: true, MaxAttempts: 3, MaxAge: time.Hour, Keep: time.Minute, Phases: []repo.Phase{repo.PhaseExecute}, Arguments: []repo.Argument{
		{Name: "n", Type: repo.ArgumentInteger, Default: json.RawMessage(" 7 ")}, {Name: "text", Type: repo.ArgumentString},
	}})
	use := repo.UseAction{
		Namespace: spaceOf(r), Name: "a \"name\"", Description: "<é>\u2028\\ \t", Actor: "me", Attempt: 2, Priority: 1,
		Projects:           []repo.ProjectLink{{Project: "p", ReadOnly: true}, {Project: "p", Alias: "again"}, {Project: "{,}"}},
		Arguments:          []repo.ArgumentValue{{Name: "text", Value: json.RawMessage(`"\u00e9 ,{}"`)}},
		Invariants:         []repo.PlanInvariant{{Text: "be kind"}},
		AutomationSnapshot: json.RawMessage(`{"a": 1e2, "b" :"\u0041<"}`), AutomationProfile: "p",
	}
	return repo.Turn{
		ID: randomName(), Messages: users(1), Action: action, Use: use,
		Open: &repo.NewStream{Key: randomName(), Owner: "me"},
	}
}

// wantNothing checks that nothing of a turn is stored.
func wantNothing(t *testing.T, r repo.Repositories, id repo.ID, turn repo.Turn) {
	t.Helper()
	if stored := readAll(t, r.Sessions(), id); len(stored) > 0 {
		t.Errorf("%d messages are stored", len(stored))
	}
	linked, err := r.Plans().List(t.Context(), repo.PlanFilter{SessionID: id}, repo.Page{})
	if must(t, linked, err); len(linked.Items) > 0 {
		t.Errorf("there are plans: %+v", linked.Items)
	}
	if _, err := r.Streams().Get(t.Context(), turn.Open.Key); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("the stream: %v", err)
	}
}

// A turn's plan is like one that Use makes, and its stream is open for its writer. The turn again makes neither.
// Guarantee: Turns: A turn, its plan and its stream are stored together, or not at all.
func testTurnWork(t *testing.T, r repo.Repositories) {
	id, turn := create(t, r.Sessions()), asking(t, r)
	added := addTurn(t, r, id, turn)
	if added.Plan == nil || added.Stream == nil {
		t.Fatalf("added %+v", added)
	}
	use := turn.Use
	use.SessionID = id
	like := usePlan(t, r, turn.Action, use)
	got, want := *added.Plan, like
	want.ID, want.RootID, want.CreatedAt, want.UpdatedAt = got.ID, got.ID, got.CreatedAt, got.UpdatedAt
	if want.Deadline = got.Deadline; !got.Deadline.Equal(got.CreatedAt.Add(time.Hour)) {
		t.Errorf("the deadline is %v", got.Deadline)
	}
	if got.RootID != got.ID {
		t.Errorf("the root is %s", got.RootID)
	}
	wantSame(t, "plan", got, want)
	wantSame(t, "stored plan", getPlan(t, r, got.ID), got)
	history, err := r.Plans().History(t.Context(), got.ID, 0, 0)
	if must(t, history, err); len(history) != 1 || history[0].Transition != repo.TransitionUse {
		t.Errorf("its history is %+v", history)
	}
	linked, err := r.Plans().List(t.Context(), repo.PlanFilter{SessionID: id}, repo.Page{})
	if must(t, linked, err); len(linked.Items) != 2 {
		t.Errorf("%d plans are linked", len(linked.Items))
	}
	if next, err := r.Streams().Append(t.Context(), *added.Stream, []byte("a")); err != nil || next != 1 || added.Stream.Session != id {
		t.Errorf("writing to %+v: %d, %v", added.Stream, next, err)
	}
	claimed, err := r.Plans().Claim(t.Context(), repo.Claim{Owner: randomName(), Namespaces: []string{turn.Use.Namespace}})
	if must(t, claimed, err); len(claimed) != 1 || claimed[0].Plan.ID != got.ID {
		t.Errorf("claimed %+v", claimed)
	}

	again := addTurn(t, r, id, turn)
	if !again.Repeated || again.Plan == nil || again.Plan.ID != got.ID || again.Plan.State != repo.PlanProcessing {
		t.Errorf("again: %+v", again)
	}
	if s := again.Stream; s == nil || s.ID != added.Stream.ID || s.Fence != 0 || s.Next != 1 {
		t.Errorf("again: %+v", s)
	}
	stored, err := r.Sessions().Turn(t.Context(), id, turn.ID)
	if must(t, stored, err); stored.Plan == nil || stored.Plan.ID != got.ID {
		t.Errorf("stored: %+v", stored.Plan)
	}
	other := turn
	other.Use.Description = "something else"
	another := turn
	another.Action = plain(t, r)
	for _, differs := range []repo.Turn{other, another} {
		_, err = r.Sessions().AppendTurn(t.Context(), inSession(id, differs))
		_, _ = wantError[*repo.ExistsError](t, err, repo.ErrConflict)
	}
	other = asking(t, r) // goes on with the stream
	other.Messages, other.Action, other.Use, other.Open = nil, "", repo.UseAction{}, &repo.NewStream{Key: turn.Open.Key, Owner: "you", Restart: true}
	if on := addTurn(t, r, id, other).Stream; on == nil || on.ID != added.Stream.ID || on.Fence <= added.Stream.Fence || on.Next != 2 {
		t.Errorf("went on with %+v", on)
	}
}

// What refuses the plan or the stream refuses the turn. An action that has changed counts as it is now.
func testTurnWorkRefused(t *testing.T, r repo.Repositories) {
	id, other := create(t, r.Sessions()), create(t, r.Sessions())
	taken, err := r.Streams().Open(t.Context(), repo.NewStream{Key: randomName(), Owner: "o", Session: other})
	must(t, taken, err)
	once := createAction(t, r, repo.ActionDefinition{})
	strict := createAction(t, r, repo.ActionDefinition{Reusable: true, Arguments: []repo.Argument{{Name: "n", Type: repo.ArgumentInteger, Required: true}}})
	for name, spoil := range map[string]func(*repo.Turn){
		"no action":       func(turn *repo.Turn) { turn.Action = "unknown-" + randomName() },
		"not reusable":    func(turn *repo.Turn) { turn.Action = once },
		"no argument":     func(turn *repo.Turn) { turn.Action = strict },
		"another's":       func(turn *repo.Turn) { turn.Open.Key = taken.Key },
		"another's alone": func(turn *repo.Turn) { turn.Open.Key, turn.Action, turn.Use = taken.Key, "", repo.UseAction{} },
	} {
		turn := asking(t, r)
		spoil(&turn)
		_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
		var refused *repo.RefusedError
		switch {
		case name == "no action" && errors.Is(err, repo.ErrNotFound):
		case name == "no argument" && errors.Is(err, repo.ErrInvalid):
		case errors.As(err, &refused) && name != "no action" && name != "no argument":
		default:
			t.Errorf("%s: %v", name, err)
		}
		if turn.Open.Key != taken.Key {
			wantNothing(t, r, id, turn)
		}
	}

	turn := asking(t, r)
	first := addTurn(t, r, id, turn)
	if _, err := r.Actions().Archive(t.Context(), turn.Action); err != nil {
		t.Fatal(err)
	}
	if again := addTurn(t, r, id, turn); !again.Repeated || again.Plan == nil || again.Plan.ID != first.Plan.ID {
		t.Errorf("again: %+v", again)
	}
	turn.ID = randomName()
	_, err = r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
	if refused, ok := wantError[*repo.RefusedError](t, err, repo.ErrConflict); ok && refused.Reason != "is archived" {
		t.Error(refused)
	}
}

// Several turns of a session, and one that creates its session, make their plans and streams.
func testTurnsWork(t *testing.T, r repo.Repositories) {
	first, second, third := create(t, r.Sessions()), asking(t, r), asking(t, r)
	second.Create = &repo.NewSession{Key: randomName()}
	added := addTurns(t, r, inSession(first, asking(t, r)), inSession(first, asking(t, r)))
	created, err := r.Sessions().AppendTurn(t.Context(), second)
	must(t, created, err)
	third.Messages, third.Open, third.ID = nil, nil, "" // a plan alone, each time
	added = append(added, created, addTurn(t, r, first, third), addTurn(t, r, first, third))
	seen := map[repo.ID]bool{}
	for i, a := range added {
		switch {
		case a.Plan == nil || seen[a.Plan.ID] || a.Plan.SessionID != a.SessionID || (a.Stream == nil) != (i >= 3):
			t.Errorf("turn %d has %+v and %+v", i, a.Plan, a.Stream)
		default:
			wantSame(t, "plan", getPlan(t, r, a.Plan.ID), *a.Plan)
			seen[a.Plan.ID] = true
		}
	}
}

func testTurnWorkInvalid(t *testing.T, r repo.Repositories) {
	id := create(t, r.Sessions())
	for field, spoil := range map[string]func(*repo.Turn){
		"use.key":        func(turn *repo.Turn) { turn.Use.Key = "k" },
		"use.existing":   func(turn *repo.Turn) { turn.Use.Existing = repo.ExistingAny },
		"use.parent_id":  func(turn *repo.Turn) { turn.Use.ParentID = repo.NewID() },
		"use.session_id": func(turn *repo.Turn) { turn.Use.SessionID = repo.NewID() },
		"use.attempt":    func(turn *repo.Turn) { turn.Use.Attempt = -1 },
		"open.key":       func(turn *repo.Turn) { turn.Open.Key = "" },
		"open.owner":     func(turn *repo.Turn) { turn.Open.Owner = "" },
		"open.session":   func(turn *repo.Turn) { turn.Open.Session = repo.NewID() },
	} {
		turn := asking(t, r)
		spoil(&turn)
		_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
		wantInvalid(t, err, field)
	}
}

// Turns that race each make one plan, which wakes a worker, and take one fence.
func testTurnRacingWork(t *testing.T, store repo.Store) {
	const racing = 8
	turn := asking(t, store)
	turn.Open = nil
	shared := &repo.NewStream{Key: randomName(), Owner: "o"}
	id := create(t, store.Sessions())
	ctx := await.Context(t)
	var running sync.WaitGroup
	woken := make(chan repo.ID, racing+1)
	for range racing + 1 {
		running.Go(func() {
			claimed, err := store.Plans().Claim(ctx, repo.Claim{Owner: randomName(), Namespaces: []string{turn.Use.Namespace}, Wait: true})
			if err != nil || len(claimed) != 1 {
				t.Errorf("claimed %d, %v", len(claimed), err)
				return
			}
			woken <- claimed[0].Plan.ID
		})
	}
	var mu sync.Mutex
	plans, fences := map[repo.ID]bool{}, []int64{}
	for n := range racing {
		running.Go(func() {
			same, err := store.Sessions().AppendTurn(t.Context(), inSession(id, turn))
			own := turn
			own.ID, own.Open = fmt.Sprint(turn.ID, n), shared
			one, err2 := store.Sessions().AppendTurn(t.Context(), inSession(id, own))
			if err := errors.Join(err, err2); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			plans[same.Plan.ID], plans[one.Plan.ID] = true, true
			fences = append(fences, one.Stream.Fence)
		})
	}
	running.Wait()
	close(woken)
	for plan := range woken {
		if !plans[plan] {
			t.Errorf("%s was claimed", plan)
		}
	}
	slices.Sort(fences)
	if len(plans) != racing+1 || len(slices.Compact(fences)) != racing {
		t.Errorf("%d plans, fences %v", len(plans), fences)
	}
	if stored := readAll(t, store.Sessions(), id); len(stored) != racing+1 {
		t.Errorf("%d messages", len(stored))
	}
}
