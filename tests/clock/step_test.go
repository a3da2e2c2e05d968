package clock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// shared is the server of all tests, which are not parallel, and its clock.
var shared struct {
	*pgtest.Cluster
	clock     pgtest.Clock
	databases int
}

// open returns the clock of the shared server, and a store on a new database.
func open(t *testing.T) (pgtest.Clock, *agentstore.Store) {
	t.Helper()
	if shared.Cluster == nil {
		shared.Cluster = pgtest.KeepCluster(t)
		shared.clock = shared.NewClock(t)
		shared.Start(t)
		if err := schema.Up(t.Context(), shared.URL("template1")); err != nil {
			t.Fatal(err)
		}
	}
	shared.LogAtEnd(t)
	shared.clock.Set(t, 0)
	shared.databases++
	name := fmt.Sprint("clock", shared.databases)
	pgtest.Exec(t, pgtest.Connect(t, shared.URL("postgres")), "CREATE DATABASE "+name)
	return shared.clock, pgtest.OpenStore(t, shared.URL(name), agentstore.Options{})
}

// serverTime returns the server's clock as a new transaction reads it.
func serverTime(t *testing.T, store *agentstore.Store) time.Time {
	t.Helper()
	now := pgtest.Value[time.Time](t, store.Pool(), "SELECT clock_timestamp()")
	return now
}

// subjects are the sessions, plans and actions that the writes of a round change.
// They are made before the step.
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

// writes are a service's writes, in an order in which each is allowed.
func (s subjects) writes(store auditlog.Keeper) []struct {
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
				_, err = sessions.AppendTurn(ctx, repo.Turn{SessionID: s.session, Expected: &session.MessageCount, Messages: []repo.NewMessage{message()}})
			}
			return err
		}},
		{"Create", func(ctx context.Context) error {
			_, err := sessions.Create(ctx, repo.NewSession{})
			return err
		}},
		{"Import", func(ctx context.Context) error {
			_, err := sessions.Import(ctx, bytes.NewReader(s.document), true)
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
			return store.Audit().Record(ctx, repo.AuditEntry{Type: events.ToolInvoked, Details: json.RawMessage(`{}`)})
		}},
		{"Hold", func(ctx context.Context) error {
			return store.AuditLog().Hold(ctx, auditlog.Hold{PlanID: s.root, Reason: "reason"})
		}},
		{"Prune", func(ctx context.Context) error {
			_, err := store.AuditLog().Prune(ctx, auditlog.Prune{Before: time.Now().Add(-time.Hour * 24)})
			return err
		}},
	}
}

// updates returns the times that must not go backwards.
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
			t.Errorf("a plan was updated at %v, before it was created at %v", plan.UpdatedAt, plan.CreatedAt)
		}
		events, err := store.Plans().History(ctx, id, 0, 0)
		must(t, events, err)
		if !slices.IsSortedFunc(events, func(a, b repo.PlanEvent) int { return a.CreatedAt.Compare(b.CreatedAt) }) {
			t.Errorf("the history's times go backwards: %+v", events)
		}
		times = append(times, plan.UpdatedAt)
	}
	if session.UpdatedAt.Before(session.CreatedAt) {
		t.Errorf("a session was updated at %v, before it was created at %v", session.UpdatedAt, session.CreatedAt)
	}
	return times
}

// When the server's clock steps back, no write fails and no UpdatedAt goes back.
// Guarantee: Clocks: A clock that steps back fails no write; `UpdatedAt` never goes back.
func TestClockStepsBack(t *testing.T) {
	clock, store := open(t)
	for _, behind := range []time.Duration{5 * time.Second, time.Hour, 0} {
		subjects := makeSubjects(t, store)
		clock.Set(t, -behind)
		if now := serverTime(t, store); now.After(time.Now().Add(-behind)) {
			t.Fatalf("the server's clock says %v, which is not %v behind, so this test checks nothing", now, behind)
		}
		for round := range 2 {
			times := subjects.updates(t, store)
			for _, w := range subjects.writes(store) {
				err := w.write(t.Context())
				if round > 0 && (errors.Is(err, repo.ErrConflict) || errors.Is(err, repo.ErrNotFound) || errors.Is(err, repo.ErrImport)) {
					continue // cannot be done twice
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

// Lists that are read page by page contain everything once, and messages are in the
// order of their appends, whatever the clock did.
// Guarantee: Clocks: A list that is read by pages has everything once.
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
	active := maps.Clone(want)
	for byActivity, counts := range map[bool]map[repo.ID]int{false: want, true: active} {
		for page := (repo.Page{Limit: 2}); ; {
			got, err := sessions.List(ctx, repo.SessionFilter{AnyOwner: true, ByActivity: byActivity}, page)
			must(t, got, err)
			// It was active last when the clock was ahead, and has not gone back since.
			if byActivity && page.After == "" && got.Items[0].ID != first.ID {
				t.Error("the session that was active at the latest time is not first")
			}
			for _, session := range got.Items {
				counts[session.ID]--
			}
			if page.After = got.Next; page.After == "" {
				break
			}
		}
	}
	for page := (repo.Page{Limit: 2}); ; {
		got, err := store.Plans().List(ctx, repo.PlanFilter{}, page)
		must(t, got, err)
		for _, plan := range got.Items {
			plans[plan.ID]--
		}
		if page.After = got.Next; page.After == "" {
			break
		}
	}
	for kind, counts := range map[string]map[repo.ID]int{"session": want, "active session": active, "plan": plans} {
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

// The audit trail can be sealed and verified across steps, and its lists contain each
// entry once.
// Guarantee: Clocks: The audit trail can be sealed and verified across steps.
func TestAuditAcrossSteps(t *testing.T) {
	clock, store := open(t)
	ctx := t.Context()
	sealer, err := audit.NewSealer(store.AuditLog(), audit.SealerOptions{})
	must(t, sealer, err)
	session := repo.NewID()
	const rounds = 4
	for i := range rounds {
		clock.Set(t, time.Duration(i%2)*-5*time.Second)
		if err := store.Audit().Record(ctx, repo.AuditEntry{Type: events.ToolInvoked, SessionID: session}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Sessions().Create(ctx, repo.NewSession{}); err != nil {
			t.Fatal(err)
		}
		sealed, err := sealer.SealOnce(ctx)
		must(t, sealed, err)
	}
	report, err := audit.Verify(ctx, store.AuditLog(), audit.VerifyOptions{})
	if must(t, report, err); len(report.Breaks) > 0 {
		t.Errorf("verifying found %+v", report.Breaks)
	}
	entries, err := store.Audit().List(ctx, repo.AuditFilter{SessionID: session, OldestFirst: true}, repo.Page{})
	if must(t, entries, err); len(entries.Items) != rounds {
		t.Errorf("%d entries, want %d", len(entries.Items), rounds)
	}
}

// A session whose UpdatedAt an older library set before its CreatedAt is exported and
// imported like any other.
func TestExportOfSteppedSession(t *testing.T) {
	_, store := open(t)
	ctx, sessions := t.Context(), store.Sessions()
	session, err := sessions.Create(ctx, repo.NewSession{})
	must(t, session, err)
	for _, sql := range []string{"sessions", "session_counters"} {
		pgtest.Exec(t, store.Pool(), "UPDATE "+sql+" SET updated_at = updated_at - interval '5 s'")
	}
	before, err := sessions.Get(ctx, session.ID)
	if must(t, before, err); !before.UpdatedAt.Before(before.CreatedAt) {
		t.Fatal("UpdatedAt is not before CreatedAt, so this test checks nothing")
	}
	var document bytes.Buffer
	if err := sessions.Export(ctx, session.ID, &document); err != nil {
		t.Fatal(err)
	}
	deleted, err := sessions.Delete(ctx, session.ID)
	must(t, deleted, err)
	imported, err := sessions.Import(ctx, &document, true)
	if must(t, imported, err); !imported.UpdatedAt.Equal(before.UpdatedAt) {
		t.Errorf("UpdatedAt is %v after the import, %v before it", imported.UpdatedAt, before.UpdatedAt)
	}
}

// How long an entry has waited to be sealed is measured by the clock that recorded
// it. The clock of the machine that verifies, or runs the doctor, may be hours off.
func TestWaitingByTheServersClock(t *testing.T) {
	clock, store := open(t)
	ctx := t.Context()
	waitsTooLong := func() (verify, doctor bool) {
		report, err := audit.Verify(ctx, store.AuditLog(), audit.VerifyOptions{})
		must(t, report, err)
		findings, err := store.AuditLog().Doctor(ctx)
		must(t, findings, err)
		return slices.ContainsFunc(report.Breaks, func(b audit.Break) bool { return b.Kind == audit.BreakWaiting }),
			slices.ContainsFunc(findings, func(f auditlog.Finding) bool { return f.Check == "sealing" })
	}
	clock.Set(t, -2*time.Hour)
	if err := store.Audit().Record(ctx, repo.AuditEntry{Type: events.ToolInvoked}); err != nil {
		t.Fatal(err)
	}
	if verify, doctor := waitsTooLong(); verify || doctor {
		t.Errorf("an entry recorded just now is reported as waiting too long: verify %t, doctor %t", verify, doctor)
	}
	sealer, err := audit.NewSealer(store.AuditLog(), audit.SealerOptions{})
	must(t, sealer, err)
	sealed, err := sealer.SealOnce(ctx)
	must(t, sealed, err)
	clock.Set(t, 0)
	if err := store.Audit().Record(ctx, repo.AuditEntry{Type: events.ToolInvoked}); err != nil {
		t.Fatal(err)
	}
	clock.Set(t, 2*time.Hour)
	if verify, doctor := waitsTooLong(); !verify || !doctor {
		t.Errorf("an entry that has waited for two hours is not reported: verify %t, doctor %t", verify, doctor)
	}
}
