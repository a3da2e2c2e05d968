package clock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// open makes a server with a clock of its own, and a store on it.
func open(t *testing.T) (*pgtest.Clock, *agentstore.Store) {
	t.Helper()
	cluster := pgtest.NewCluster(t)
	clock := cluster.NewClock(t)
	cluster.Start(t)
	databaseURL := cluster.URL("postgres")
	if err := schema.Up(t.Context(), databaseURL); err != nil {
		t.Fatal(err)
	}
	store, err := agentstore.Open(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return clock, store
}

// serverTime is the server's clock, as a new transaction sees it.
func serverTime(t *testing.T, store *agentstore.Store) time.Time {
	t.Helper()
	var now time.Time
	if err := store.Pool().QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
		t.Fatal(err)
	}
	return now
}

// subjects are what the writes of a round are made to: made before the step.
type subjects struct {
	session, doomed   repo.ID
	action, unused    string
	root, child       repo.ID
	processing, other repo.ID
	document          []byte
}

func must[V any](t *testing.T, value V, err error) V {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func message() repo.NewMessage { return repo.NewMessage{Role: repo.RoleUser, Content: "x"} }

func makeSubjects(t *testing.T, store repo.Store) subjects {
	t.Helper()
	ctx, sessions, plans := t.Context(), store.Sessions(), store.Plans()
	newSession := func() repo.ID {
		session, err := sessions.Create(ctx, repo.NewSession{})
		return must(t, session, err).ID
	}
	newAction := func() string {
		action, err := store.Actions().Create(ctx, repo.NewAction{
			Name: "a" + repo.NewID().String(), ActionDefinition: repo.ActionDefinition{Reusable: true},
		})
		return must(t, action, err).Name.String()
	}
	s := subjects{session: newSession(), doomed: newSession(), action: newAction(), unused: newAction()}
	newPlan := func(parent repo.ID) repo.ID {
		plan, err := plans.Use(ctx, s.action, repo.UseAction{ParentID: parent})
		return must(t, plan, err).ID
	}
	s.root = newPlan(repo.ID{})
	s.child, s.processing, s.other = newPlan(s.root), newPlan(repo.ID{}), newPlan(repo.ID{})
	plan, err := plans.Transition(ctx, s.processing, repo.TransitionStart, repo.Cause{})
	must(t, plan, err)
	imported := newSession()
	stored, err := sessions.Append(ctx, imported, message(), message())
	must(t, stored, err)
	var document bytes.Buffer
	if err := sessions.Export(ctx, imported, &document); err != nil {
		t.Fatal(err)
	}
	deleted, err := sessions.Delete(ctx, imported)
	must(t, deleted, err)
	s.document = document.Bytes()
	return s
}

// writes are what a service writes, in an order in which each is allowed.
func (s subjects) writes(store repo.Store) []struct {
	name  string
	write func(ctx context.Context) error
} {
	sessions, actions, plans := store.Sessions(), store.Actions(), store.Plans()
	actor, step := "actor", int64(1)
	transition := func(id repo.ID, transition repo.Transition) func(context.Context) error {
		return func(ctx context.Context) error {
			cause := repo.Cause{Reason: "reason"}
			_, err := plans.Transition(ctx, id, transition, cause)
			return err
		}
	}
	return []struct {
		name  string
		write func(ctx context.Context) error
	}{
		{"AddUsage", func(ctx context.Context) error {
			_, err := sessions.AddUsage(ctx, s.session, repo.NewUsage{Cost: 1})
			return err
		}},
		{"Update", func(ctx context.Context) error {
			_, err := sessions.Update(ctx, s.session, repo.SessionUpdate{Actor: &actor})
			return err
		}},
		{"Append", func(ctx context.Context) error {
			_, err := sessions.Append(ctx, s.session, message())
			return err
		}},
		{"AppendAt", func(ctx context.Context) error {
			session, err := sessions.Get(ctx, s.session)
			if err == nil {
				_, err = sessions.AppendAt(ctx, s.session, session.MessageCount, message())
			}
			return err
		}},
		{"Create", func(ctx context.Context) error {
			_, err := sessions.Create(ctx, repo.NewSession{})
			return err
		}},
		{"Import", func(ctx context.Context) error {
			_, err := sessions.Import(ctx, bytes.NewReader(s.document))
			return err
		}},
		{"Delete", func(ctx context.Context) error {
			_, err := sessions.Delete(ctx, s.doomed)
			return err
		}},
		{"Actions.Update", func(ctx context.Context) error {
			_, err := actions.Update(ctx, s.action, 0, repo.ActionDefinition{Reusable: true, Description: "new"})
			return err
		}},
		{"Archive", func(ctx context.Context) error {
			_, err := actions.Archive(ctx, s.unused)
			return err
		}},
		{"Use", func(ctx context.Context) error {
			_, err := plans.Use(ctx, s.action, repo.UseAction{SessionID: s.session})
			return err
		}},
		{"Use of a child", func(ctx context.Context) error {
			_, err := plans.Use(ctx, s.action, repo.UseAction{ParentID: s.root})
			return err
		}},
		{"Progress", func(ctx context.Context) error {
			_, err := plans.Progress(ctx, s.processing, repo.Progress{CompletedStep: &step})
			return err
		}},
		{"complete", transition(s.processing, repo.TransitionComplete)},
		{"execute", transition(s.processing, repo.TransitionExecute)},
		{"start", transition(s.processing, repo.TransitionStart)},
		{"fail", transition(s.processing, repo.TransitionFail)},
		{"revert", transition(s.processing, repo.TransitionRevert)},
		{"cancel", transition(s.root, repo.TransitionCancel)},
		{"Link", func(ctx context.Context) error { return plans.Link(ctx, s.session, s.other) }},
		{"Unlink", func(ctx context.Context) error { return plans.Unlink(ctx, s.session, s.other) }},
		{"Record", func(ctx context.Context) error {
			return store.Audit().Record(ctx, repo.AuditEntry{Type: repo.EventToolInvoked, Details: json.RawMessage(`{}`)})
		}},
		{"Hold", func(ctx context.Context) error {
			return store.Trail().Hold(ctx, repo.AuditHold{PlanID: s.root, Reason: "reason"})
		}},
		{"Prune", func(ctx context.Context) error {
			_, err := store.Trail().Prune(ctx, repo.AuditPrune{Before: time.Now().Add(-time.Hour * 24)})
			return err
		}},
	}
}

// updates are the times that may not go backwards.
func (s subjects) updates(t *testing.T, store repo.Store) []time.Time {
	t.Helper()
	ctx := t.Context()
	session, err := store.Sessions().Get(ctx, s.session)
	must(t, session, err)
	action, err := store.Actions().Get(ctx, s.action)
	must(t, action, err)
	unused, err := store.Actions().Get(ctx, s.unused)
	must(t, unused, err)
	times := []time.Time{session.UpdatedAt, action.UpdatedAt, unused.UpdatedAt}
	for _, id := range []repo.ID{s.root, s.child, s.processing, s.other} {
		plan, err := store.Plans().Get(ctx, id)
		must(t, plan, err)
		if plan.UpdatedAt.Before(plan.CreatedAt) {
			t.Errorf("a plan was updated at %v, before it was made at %v", plan.UpdatedAt, plan.CreatedAt)
		}
		events, err := store.Plans().History(ctx, id, 0, 0)
		must(t, events, err)
		if !slices.IsSortedFunc(events, func(a, b repo.PlanEvent) int { return a.CreatedAt.Compare(b.CreatedAt) }) {
			t.Errorf("the history's times go backwards: %+v", events)
		}
		times = append(times, plan.UpdatedAt)
	}
	if session.UpdatedAt.Before(session.CreatedAt) {
		t.Errorf("a session was updated at %v, before it was made at %v", session.UpdatedAt, session.CreatedAt)
	}
	return times
}

// A server's clock that steps back fails no write, and takes no UpdatedAt back.
func TestClockStepsBack(t *testing.T) {
	clock, store := open(t)
	for _, behind := range []time.Duration{5 * time.Second, time.Hour, 0} {
		subjects := makeSubjects(t, store)
		before := serverTime(t, store)
		clock.Set(t, -behind)
		if stepped := before.Sub(serverTime(t, store)); behind > 0 && stepped < behind-2*time.Second {
			t.Fatalf("the server's clock has stepped back by %v, want %v: the test does not show what it is for", stepped, behind)
		}
		for round := range 2 {
			times := subjects.updates(t, store)
			for _, w := range subjects.writes(store) {
				err := w.write(t.Context())
				if round > 0 && (errors.Is(err, repo.ErrConflict) || errors.Is(err, repo.ErrNotFound) || errors.Is(err, repo.ErrImport)) {
					continue // it was done already
				}
				if err != nil {
					t.Errorf("%v behind: %s: %v", behind, w.name, err)
				}
			}
			for i, after := range subjects.updates(t, store) {
				if after.Before(times[i]) {
					t.Errorf("%v behind: an UpdatedAt went back from %v to %v", behind, times[i], after)
				}
			}
		}
		clock.Set(t, 0)
	}
}

// Lists read page by page hold everything once, and messages stand in the order
// of their appends, whatever the clock did between.
func TestListsAcrossSteps(t *testing.T) {
	clock, store := open(t)
	ctx, sessions := t.Context(), store.Sessions()
	action, err := store.Actions().Create(ctx, repo.NewAction{Name: "a", ActionDefinition: repo.ActionDefinition{Reusable: true}})
	must(t, action, err)
	first, err := sessions.Create(ctx, repo.NewSession{})
	must(t, first, err)
	want := map[repo.ID]int{first.ID: 1}
	plans := map[repo.ID]int{}
	for i, offset := range []time.Duration{0, -5 * time.Second, time.Minute, -time.Hour, 0} {
		clock.Set(t, offset)
		for range 3 {
			session, err := sessions.Create(ctx, repo.NewSession{})
			want[must(t, session, err).ID] = 1
			plan, err := store.Plans().Use(ctx, "a", repo.UseAction{SessionID: first.ID})
			plans[must(t, plan, err).ID] = 1
		}
		stored, err := sessions.Append(ctx, first.ID, message())
		if must(t, stored, err); stored[0].Sequence != int64(i) {
			t.Errorf("message %d has the sequence %d", i, stored[0].Sequence)
		}
	}
	page := repo.Page{Limit: 2}
	for {
		got, err := sessions.List(ctx, repo.SessionFilter{}, page)
		must(t, got, err)
		for _, session := range got.Sessions {
			want[session.ID]--
		}
		if page.After = got.Next; page.After == "" {
			break
		}
	}
	for page = (repo.Page{Limit: 2}); ; {
		got, err := store.Plans().List(ctx, repo.PlanFilter{}, page)
		must(t, got, err)
		for _, plan := range got.Plans {
			plans[plan.ID]--
		}
		if page.After = got.Next; page.After == "" {
			break
		}
	}
	for kind, counts := range map[string]map[repo.ID]int{"session": want, "plan": plans} {
		for id, left := range counts {
			if left != 0 {
				t.Errorf("the list has the %s %s %d times", kind, id, 1-left)
			}
		}
	}
	messages, err := sessions.MessagesFrom(ctx, first.ID, 0, 0)
	must(t, messages, err)
	if !slices.IsSortedFunc(messages, func(a, b repo.Message) int { return a.CreatedAt.Compare(b.CreatedAt) }) {
		t.Error("the messages' times go backwards within their session")
	}
}

// The audit trail seals and verifies across steps, and its lists hold each entry
// once.
func TestTrailAcrossSteps(t *testing.T) {
	clock, store := open(t)
	ctx := t.Context()
	sealer, err := audit.NewSealer(store.Trail(), audit.SealerOptions{})
	must(t, sealer, err)
	session := repo.NewID()
	const rounds = 4
	for i := range rounds {
		clock.Set(t, time.Duration(i%2)*-5*time.Second)
		if err := store.Audit().Record(ctx, repo.AuditEntry{Type: repo.EventToolInvoked, SessionID: session}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Sessions().Create(ctx, repo.NewSession{}); err != nil {
			t.Fatal(err)
		}
		sealed, err := sealer.SealOnce(ctx)
		must(t, sealed, err)
	}
	report, err := audit.Verify(ctx, store.Trail(), audit.VerifyOptions{})
	if must(t, report, err); len(report.Breaks) > 0 {
		t.Errorf("verifying found %+v", report.Breaks)
	}
	entries, err := store.Audit().List(ctx, repo.AuditFilter{SessionID: session}, repo.OldestFirst, repo.Page{})
	if must(t, entries, err); len(entries.Entries) != rounds {
		t.Errorf("%d entries, want %d", len(entries.Entries), rounds)
	}
}

// A session that an older library left with an UpdatedAt before its CreatedAt is
// exported and imported like any other.
func TestExportOfSteppedSession(t *testing.T) {
	_, store := open(t)
	ctx, sessions := t.Context(), store.Sessions()
	session, err := sessions.Create(ctx, repo.NewSession{})
	must(t, session, err)
	for _, sql := range []string{"sessions", "session_counters"} {
		if _, err := store.Pool().Exec(ctx, "UPDATE "+sql+" SET updated_at = updated_at - interval '5 s'"); err != nil {
			t.Fatal(err)
		}
	}
	before, err := sessions.Get(ctx, session.ID)
	if must(t, before, err); !before.UpdatedAt.Before(before.CreatedAt) {
		t.Fatal("the test does not show what it is for")
	}
	var document bytes.Buffer
	if err := sessions.Export(ctx, session.ID, &document); err != nil {
		t.Fatal(err)
	}
	deleted, err := sessions.Delete(ctx, session.ID)
	must(t, deleted, err)
	imported, err := sessions.Import(ctx, &document)
	if must(t, imported, err); !imported.UpdatedAt.Equal(before.UpdatedAt) {
		t.Errorf("imported it was updated at %v, before at %v", imported.UpdatedAt, before.UpdatedAt)
	}
}
