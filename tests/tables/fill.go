package tables

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/files/filespg"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Action is the name of the action that Fill makes, whose plans may be claimed.
const Action = "local/filled"

// Emptied is the table that stores empty in their own time.
const Emptied = "session_remains"

// Fill writes rows into every other table through a store, as services do. It fails the test if
// a table is still empty.
func Fill(t testing.TB, store *agentstore.Store) {
	t.Helper()
	session := fillSessions(t, store)
	fillPlans(t, store, session)
	_, err := store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.LeaseKey{Kind: "filled", Name: "lease"}, Owner: "filler"})
	check(t, err)
	stream, err := store.Streams().Open(t.Context(), repo.NewStream{Key: "filled", Owner: "filler"})
	check(t, err)
	_, err = store.Streams().Append(t.Context(), stream, []byte("a"), []byte("b"))
	check(t, err)
	blobs, err := filespg.New(store.Pool())
	check(t, err)
	check(t, blobs.Put(t.Context(), "filled/blob", strings.NewReader("filled")))
	fillAudit(t, store, session)
	for _, name := range Names(t, store.Pool()) {
		if name == Emptied {
			continue
		}
		if !pgtest.Value[bool](t, store.Pool(), "SELECT EXISTS (SELECT FROM "+name+")") {
			t.Errorf("Fill leaves the table %s empty", name)
		}
	}
}

// fillSessions returns a session with everything.
func fillSessions(t testing.TB, store *agentstore.Store) repo.ID {
	t.Helper()
	budget := repo.Cost(1_000_000)
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{
		Key: "filled", Owner: "somebody", Actor: "local/actor", AutomationProfile: "careful", Metadata: json.RawMessage(`{"a":1}`), Budget: &budget,
	})
	check(t, err)
	turn := repo.Turn{
		SessionID: session.ID,
		Messages: []repo.NewMessage{
			{ID: repo.NewID(), Role: repo.RoleAssistant, Kind: "call", CallID: "c1", Content: "é", Payload: []byte{0}, Metadata: json.RawMessage(`{"b":2}`), Tokens: 3, Counter: "filled"},
			{Role: repo.RoleTool, Kind: "result", CallID: "c1", Content: "x"},
		},
		Usage: &repo.NewUsage{InputTokens: 1, OutputTokens: 2, Cost: 3},
		State: []repo.StateChange{{Key: "own", Op: repo.StateIncrement, By: 1}, {Scope: repo.Scope{Name: "shared"}, Key: "n", Op: repo.StateIncrement, By: 1}},
	}
	_, err = store.Sessions().AppendTurn(t.Context(), turn)
	check(t, err)
	after := int64(0)
	_, err = store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: session.ID, After: &after, Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "again"}}})
	check(t, err)
	fork, err := store.Sessions().Fork(t.Context(), session.ID, 1, repo.NewSession{})
	check(t, err)
	_, err = store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: fork.ID, After: &after})
	check(t, err)
	// One with an id of its caller's, and one that is deleted.
	_, err = store.Sessions().Create(t.Context(), repo.NewSession{ID: repo.NewID()})
	check(t, err)
	_, err = store.Sessions().Delete(t.Context(), pgtest.NewSession(t, store))
	check(t, err)
	return session.ID
}

// fillPlans makes a claimed plan, and two children that wait, one of a session, each with a key.
func fillPlans(t testing.TB, store *agentstore.Store, session repo.ID) {
	t.Helper()
	_, err := store.Actions().Create(t.Context(), repo.NewAction{Name: Action, ActionDefinition: repo.ActionDefinition{
		Reusable: true, Tags: []string{"tag"}, Invariants: []string{"holds"}, Arguments: []repo.Argument{{Name: "x", Type: repo.ArgumentString}},
	}})
	check(t, err)
	use := repo.UseAction{
		SessionID: session, Projects: []repo.ProjectLink{{Project: "p"}}, Arguments: []repo.ArgumentValue{{Name: "x", Value: json.RawMessage(`"y"`)}},
		Invariants: []repo.PlanInvariant{{Text: "too"}},
	}
	_, err = store.Plans().Use(t.Context(), Action, use)
	check(t, err)
	claimed, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: "filler"})
	check(t, err)
	if len(claimed) != 1 {
		t.Fatalf("%d plans claimed", len(claimed))
	}
	check(t, store.Plans().SetLimit(t.Context(), repo.PlanLimit{AtOnce: 5}))
	_, err = store.Actions().Create(t.Context(), repo.NewAction{Name: "kept", ActionDefinition: repo.ActionDefinition{Keep: time.Hour}})
	check(t, err)
	ended, err := store.Plans().Use(t.Context(), "kept", repo.UseAction{})
	check(t, err)
	_, err = store.Plans().Transition(t.Context(), ended.ID, repo.TransitionCancel, repo.Cause{Reason: "kept"})
	check(t, err)
	use.ParentID, use.Key = claimed[0].Plan.ID, "filled"
	for _, use.SessionID = range []repo.ID{session, {}} {
		_, err = store.Plans().Use(t.Context(), Action, use)
		check(t, err)
	}
}

// fillAudit seals what there is, holds a session, and leaves an entry unsealed.
func fillAudit(t testing.TB, store *agentstore.Store, session repo.ID) {
	t.Helper()
	check(t, store.AuditLog().Hold(t.Context(), auditlog.Hold{SessionID: session, Reason: "asked for"}))
	sink, err := store.AuditLog().Sink(t.Context())
	check(t, err)
	check(t, sink.Quarantine(t.Context(), auditlog.Poison{ID: repo.NewID(), Document: []byte("{}"), Reason: "refused"}))
	check(t, sink.Close())
	Seal(t, store)
	check(t, store.Audit().Record(t.Context(), repo.AuditEntry{Type: events.ToolInvoked, Actor: "local/actor", SessionID: session}))
}

// Seal seals all entries of the trail.
func Seal(t testing.TB, store *agentstore.Store) {
	t.Helper()
	sealer, err := audit.NewSealer(store.AuditLog(), audit.SealerOptions{})
	check(t, err)
	for sealed := 1; sealed > 0; {
		sealed, err = sealer.SealOnce(t.Context())
		check(t, err)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
