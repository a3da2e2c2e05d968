package repotest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
)

func turnTests() []test {
	return []test{
		onPlans("Whole", testTurnWhole),
		onPlans("Parts", testTurnParts),
		onPlans("Invalid", testTurnInvalid),
		onPlans("Missing", testTurnMissing),
		onPlans("AllOrNothing", testTurnAllOrNothing),
		onPlans("Conditions", testTurnConditions),
		onPlans("Repeat", testTurnRepeat),
		onPlans("IDs", testTurnIDs),
		onPlans("RepeatByOtherIDs", testTurnRepeatByOtherIDs),
		onPlans("RepeatOfMessages", testTurnRepeatOfMessages),
		onPlans("WithoutIDs", testTurnWithoutIDs),
		onPlans("Conflicts", testTurnConflicts),
		onPlans("Existing", testTurnExisting),
		onPlans("ExistingOfSeveral", testTurnExistingOfSeveral),
		onPlans("ByID", testTurnByID),
		onPlans("KnownMessage", testTurnKnownMessage),
		onPlans("KnownUsage", testTurnKnownUsage),
		onPlans("Order", testTurnOrder),
		onPlans("Create", testTurnCreate),
		onPlans("IDsGoWithSession", testTurnIDsGoWithSession),
		onPlans("ScopeErased", testTurnScopeErased),
		onPlans("OnOne", testTurnsOnOne),
		onPlans("IDsOfOtherKinds", testTurnIDsOfOtherKinds),
		onPlans("Calls", testTurnCalls),
		onPlans("UsageIsNoActivity", testTurnUsageIsNoActivity),
		onPlans("Work", testTurnWork),
		onPlans("WorkRefused", testTurnWorkRefused),
		onPlans("WorkOfSeveral", testTurnsWork),
		onPlans("WorkInvalid", testTurnWorkInvalid),
	}
}

func turnRaceTests() []test {
	return []test{
		{"Keys", testTurnRacingKeys},
		{"Increments", testTurnRacingIncrements},
		{"Versions", testTurnRacingVersions},
		{"Conditions", testTurnRacingConditions},
		{"ID", testTurnRacingID},
		{"Existing", testTurnRacingExisting},
		{"Create", testTurnRacingCreate},
		{"Budget", testTurnRacingBudget},
		{"InTx", testTurnsRacingInTx},
		{"WithAppends", testTurnsWithAppends},
		{"Tx", testTurnTx},
		{"RolledBack", testTurnsRolledBack},
		{"AllOrNone", testTurnsAllOrNone},
		{"Refusals", testTurnsRacingRefusals},
		{"WithAppendsAt", testTurnsWithAppendsAt},
		{"Work", testTurnRacingWork},
	}
}

func addTurn(t *testing.T, r repo.Repositories, id repo.ID, turn repo.Turn) repo.AppendedTurn {
	t.Helper()
	added, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
	return must(t, added, err)
}

// wantRepeated checks that a turn is stored, as it was added.
func wantRepeated(t *testing.T, r repo.Repositories, id repo.ID, turn repo.Turn, added repo.AppendedTurn) {
	t.Helper()
	before := recordedState(t, r, id)
	again := addTurn(t, r, id, turn)
	if !again.Repeated || again.Created {
		t.Errorf("the turn again is repeated: %v, created: %v", again.Repeated, again.Created)
	}
	wantMessages(t, again.Messages, added.Messages)
	if len(again.Scopes) != len(added.Scopes) || (again.Usage == nil) != (added.Usage == nil) {
		t.Errorf("the turn again is %+v, at first %+v", again, added)
	}
	wantSame(t, "session", recordedState(t, r, id), before)
}

// recordedState is a session with its messages and its own state.
func recordedState(t *testing.T, r repo.Repositories, id repo.ID) []any {
	t.Helper()
	states, err := r.State().Read(t.Context(), repo.Scope{SessionID: id})
	return []any{get(t, r.Sessions(), id), readAll(t, r.Sessions(), id), must(t, states, err)}
}

// fullTurn has messages, changes of the session's own and of a shared scope, and usage.
func fullTurn(scope repo.Scope) repo.Turn {
	return repo.Turn{
		ID:       randomName(),
		Messages: []repo.NewMessage{user(secret), fullMessage()},
		State: []repo.StateChange{
			set(scope, "color", `"`+secret+`"`), set(repo.Scope{}, "step", `{"n": 1}`),
			within(increment(scope, "n", 3), 3, 1000), unset(scope, "gone"),
		},
		Usage: &repo.NewUsage{ID: repo.NewID(), InputTokens: 1, OutputTokens: 2, Cost: 3},
	}
}

func testTurnWhole(t *testing.T, r repo.Repositories) {
	id, scope := create(t, r.Sessions()), shared()
	before := get(t, r.Sessions(), id)
	appendTo(t, r.Sessions(), id, user("first"))
	change(t, r, set(scope, "gone", `1`), set(scope, "stays", `2`))
	_, version := readState(t, r, scope)
	tick()
	turn := fullTurn(scope)
	added := addTurn(t, r, id, turn)
	wantStored(t, id, 1, turn.Messages, added.Messages)
	wantMessages(t, wantCount(t, r.Sessions(), id, 3)[1:], added.Messages)
	if added.Repeated || added.Created {
		t.Errorf("a new turn is repeated: %v, created: %v", added.Repeated, added.Created)
	}
	own := repo.Scope{SessionID: id}
	wantState(t, r, own, map[string]string{"step": `{"n": 1}`})
	wantState(t, r, scope, map[string]string{"color": `"` + secret + `"`, "n": "3", "stays": "2"})
	_, ownVersion := readState(t, r, own)
	_, next := readState(t, r, scope)
	wantSame(t, "scopes", added.Scopes, []repo.ScopeVersion{{Scope: scope, Version: next}, {Scope: own, Version: ownVersion}})
	if got := getState(t, r, scope, "n").Version; got != next || got <= version {
		t.Errorf("the key is at version %d, want that of the scope, %d, after %d", got, next, version)
	}
	want := repo.Usage{InputTokens: 1, OutputTokens: 2, Cost: 3}
	session := get(t, r.Sessions(), id)
	if added.Usage == nil || *added.Usage != want || session.Usage != want || !session.UpdatedAt.After(before.UpdatedAt) {
		t.Errorf("the usage is %+v, and %+v in the session, updated at %v", added.Usage, session.Usage, session.UpdatedAt)
	}
}

// None of a turn's parts is required.
func testTurnParts(t *testing.T, r repo.Repositories) {
	id, scope := create(t, r.Sessions()), shared()
	for range 2 {
		added := addTurn(t, r, id, repo.Turn{Messages: users(2)})
		if len(added.Messages) != 2 || added.Scopes != nil || added.Usage != nil || added.Repeated {
			t.Errorf("a turn of messages gave %+v", added)
		}
		added = addTurn(t, r, id, repo.Turn{State: []repo.StateChange{increment(scope, "n", 1)}})
		if added.Messages != nil || len(added.Scopes) != 1 || added.Usage != nil || added.Repeated {
			t.Errorf("a turn of state gave %+v", added)
		}
		added = addTurn(t, r, id, repo.Turn{Usage: &repo.NewUsage{Cost: 5}})
		if added.Messages != nil || added.Scopes != nil || added.Usage == nil || added.Repeated {
			t.Errorf("a turn of usage gave %+v", added)
		}
	}
	wantCount(t, r.Sessions(), id, 4)
	wantState(t, r, scope, map[string]string{"n": "2"})
	if got := get(t, r.Sessions(), id).Usage.Cost; got != 10 {
		t.Errorf("the cost is %d", got)
	}
}

func testTurnInvalid(t *testing.T, r repo.Repositories) {
	id, other, scope := create(t, r.Sessions()), create(t, r.Sessions()), shared()
	otherScope := repo.Scope{SessionID: other}
	for field, turn := range map[string]repo.Turn{
		"id":                      {ID: strings.Repeat("x", repo.MaxNameBytes+1), Messages: users(1)},
		"turn":                    {ID: randomName(), IfScopes: []repo.ScopeVersion{{Scope: scope}}, Create: &repo.NewSession{}},
		"messages[1].role":        {Messages: []repo.NewMessage{user("x"), {Content: secret}}},
		"state[0].scope":          {State: []repo.StateChange{set(otherScope, "a", `1`)}},
		"state[0].value":          {State: []repo.StateChange{set(scope, "a", secret)}},
		"state":                   {State: []repo.StateChange{set(scope, "a", `1`), unset(scope, "a")}},
		"if_scopes[0].scope":      {Messages: users(1), IfScopes: []repo.ScopeVersion{{Scope: otherScope}}},
		"if_scopes[0].version":    {Messages: users(1), IfScopes: []repo.ScopeVersion{{Scope: scope, Version: -1}}},
		"usage.cost":              {Usage: &repo.NewUsage{Cost: -1}},
		"expected":                {Messages: users(1), Expected: ptr(int64(-1))},
		"create.id":               {Messages: users(1), Create: &repo.NewSession{ID: other}},
		"create.namespace":        {Messages: users(1), Create: &repo.NewSession{Namespace: string([]byte{255})}},
		"state[0].scope.name":     {State: []repo.StateChange{set(repo.Scope{Name: string(make([]byte, limits.MaxScopeBytes+1))}, "a", `1`)}},
		"state[0].key":            {State: []repo.StateChange{set(scope, "", `1`)}},
		"messages[0].occurred_at": {Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "x", OccurredAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}}},
	} {
		_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
		wantInvalid(t, err, field)
	}
	for _, invalid := range []string{"a\x00", "a\xff"} {
		_, err := r.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, ID: invalid, Messages: users(1)})
		wantInvalid(t, err, "id")
	}
	wantCount(t, r.Sessions(), id, 0)
}

func testTurnMissing(t *testing.T, r repo.Repositories) {
	id, scope := repo.NewID(), shared()
	for _, turn := range []repo.Turn{
		fullTurn(scope),
		{Messages: users(1)},
		{Usage: &repo.NewUsage{}},
		{State: []repo.StateChange{set(repo.Scope{}, "a", `1`)}},
		{State: []repo.StateChange{set(scope, "a", `1`)}},
		{Messages: users(1), Expected: ptr(int64(0))},
	} {
		_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
		wantNotFound(t, err, "session", id)
	}
	wantState(t, r, scope, map[string]string{})
}

// Whatever part of a turn is refused, nothing of it is stored, and the same turn can be
// added later.
// Guarantee: Turns: A turn (messages, state, usage) is stored whole or not at all.
func testTurnAllOrNothing(t *testing.T, r repo.Repositories) {
	scope := shared()
	id := createAs(t, r.Sessions(), repo.NewSession{Budget: ptr(repo.Cost(10))}).ID
	known := fullMessage()
	appendTo(t, r.Sessions(), id, user("first"), known)
	once := repo.NewUsage{ID: repo.NewID(), Cost: 1}
	_, err := r.Sessions().AddUsage(t.Context(), id, once)
	must(t, once, err)
	version := change(t, r, set(scope, "text", `"x"`), set(scope, "most", fmt.Sprint(math.MaxInt64)))
	before := recordedState(t, r, id)
	sharedBefore, _ := readState(t, r, scope)
	refused := func(name string, spoil func(*repo.Turn), want func(error)) {
		t.Helper()
		turn := fullTurn(scope)
		spoil(&turn)
		added, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
		if want(err); !reflect.DeepEqual(added, repo.AppendedTurn{}) {
			t.Errorf("%s: the refused turn gave %+v", name, added)
		}
		wantSame(t, "session", recordedState(t, r, id), before)
		after, at := readState(t, r, scope)
		wantSame(t, "state", after, sharedBefore)
		if at != version || t.Failed() {
			t.Fatalf("%s: the scope is at version %d, want %d", name, at, version)
		}
	}
	refused("sequence", func(turn *repo.Turn) { turn.Expected = ptr(int64(1)) }, func(err error) {
		wantSequenceConflict(t, err, repo.SequenceConflictError{Kind: "session", ID: id, Expected: 1, Next: 2})
	})
	refused("message", func(turn *repo.Turn) { turn.Messages = append(turn.Messages, known) }, func(err error) {
		wantMessageConflict(t, err, id, known.ID, "turn")
	})
	refused("key condition", func(turn *repo.Turn) { turn.State = append(turn.State, ifVersion(set(scope, "text", `1`), 0)) }, func(err error) {
		wantStateConflict(t, err, repo.VersionConflictError{Kind: "state", Scope: scope, Name: "text", Actual: version})
	})
	refused("scope condition", func(turn *repo.Turn) {
		turn.IfScopes = []repo.ScopeVersion{{Scope: scope, Version: version + 1}}
	}, func(err error) {
		wantStateConflict(t, err, repo.VersionConflictError{Kind: "state", Scope: scope, Expected: version + 1, Actual: version})
	})
	refused("own condition", func(turn *repo.Turn) { turn.IfScopes = []repo.ScopeVersion{{Version: 7}} }, func(err error) {
		wantStateConflict(t, err, repo.VersionConflictError{Kind: "state", Scope: repo.Scope{SessionID: id}, Expected: 7})
	})
	for _, key := range []string{"text", "most"} {
		refused("increment", func(turn *repo.Turn) { turn.State = append(turn.State, increment(scope, key, 1)) }, func(err error) {
			if got, ok := wantError[*repo.RefusedError](t, err, repo.ErrConflict); ok && (got.Scope != scope || got.Name != key) {
				t.Errorf("the error names %+v, %q", got.Scope, got.Name)
			}
		})
	}
	refused("budget", func(turn *repo.Turn) { turn.Usage.Cost = 10 }, func(err error) {
		wantBudgetExceeded(t, err, repo.LimitExceededError{Kind: "budget", ID: id, Limit: 10, Current: 1, Requested: 10})
	})
	refused("usage", func(turn *repo.Turn) { turn.Usage = &repo.NewUsage{ID: once.ID, Cost: 2} }, func(err error) {
		wantUsageConflict(t, err, repo.ExistsError{Kind: "usage", SessionID: id, ID: once.ID, Field: "cost"})
	})
	wantAddedLater(t, r, id, fullTurn(scope))
}

// wantAddedLater wants that refused turns have left no trace, and that a turn is added once the budget of 10 allows it.
func wantAddedLater(t *testing.T, r repo.Repositories, id repo.ID, turn repo.Turn) {
	t.Helper()
	document := export(t, r.Sessions(), id)
	if strings.Contains(string(document), `"state"`) {
		t.Errorf("the export is %s", brief(document))
	}
	turn.Usage.Cost = 10
	_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
	wantBudgetExceeded(t, err, repo.LimitExceededError{Kind: "budget", ID: id, Limit: 10, Current: 1, Requested: 10})
	update(t, r.Sessions(), id, repo.SessionUpdate{Budget: ptr(repo.Cost(11))})
	if added := addTurn(t, r, id, turn); added.Repeated || added.Usage.Cost != 11 {
		t.Errorf("with more budget: %+v", added)
	}
	wantRepeated(t, r, id, turn, repo.AppendedTurn{Messages: readAll(t, r.Sessions(), id)[2:], Scopes: make([]repo.ScopeVersion, 2), Usage: &repo.Usage{}})
}

func testTurnConditions(t *testing.T, r repo.Repositories) {
	id, scope, guard := create(t, r.Sessions()), shared(), shared()
	// Version 0: there is no key, no scope.
	added := addTurn(t, r, id, repo.Turn{
		State:    []repo.StateChange{ifVersion(set(scope, "a", `1`), 0)},
		IfScopes: []repo.ScopeVersion{{Scope: scope}, {Scope: guard}, {}},
		Expected: ptr(int64(0)),
	})
	version := added.Scopes[0].Version
	added = addTurn(t, r, id, repo.Turn{
		State:    []repo.StateChange{ifVersion(set(scope, "a", `2`), version), set(repo.Scope{SessionID: id}, "own", `1`)},
		IfScopes: []repo.ScopeVersion{{Scope: scope, Version: version}, {Scope: guard}},
		Messages: users(1), Expected: ptr(int64(0)),
	})
	if added.Scopes[0].Version <= version {
		t.Errorf("the version is %d after %d", added.Scopes[0].Version, version)
	}
	wantState(t, r, scope, map[string]string{"a": "2"})
	// A scope that has only a condition is not changed.
	if values, at := readState(t, r, guard); len(values) != 0 || at != 0 {
		t.Errorf("the scope with a condition is at version %d", at)
	}
}

func testTurnRepeat(t *testing.T, r repo.Repositories) {
	id, scope := createAs(t, r.Sessions(), repo.NewSession{Budget: ptr(repo.Cost(5))}).ID, shared()
	turn := fullTurn(scope)
	turn.Expected, turn.IfScopes = ptr(int64(0)), []repo.ScopeVersion{{Scope: scope}}
	added := addTurn(t, r, id, turn)
	// The conditions no longer hold, and the budget is used up.
	version := change(t, r, set(scope, "color", `"other"`))
	appendTo(t, r.Sessions(), id, users(2)...)
	for range 2 {
		wantRepeated(t, r, id, turn, added)
	}
	// Conditions and ids that were not given are not compared.
	again := turn
	again.Expected, again.IfScopes, again.Create = nil, nil, &repo.NewSession{}
	wantRepeated(t, r, id, again, added)
	repeated := addTurn(t, r, id, turn)
	if repeated.Scopes[0] != (repo.ScopeVersion{Scope: scope, Version: version}) || repeated.Usage.Cost != 3 {
		t.Errorf("repeated, the scopes are %+v, want the version %d; the usage is %+v", repeated.Scopes, version, repeated.Usage)
	}
	wantState(t, r, scope, map[string]string{"color": `"other"`, "n": "3"})
	// The same id in another session is another turn.
	other := create(t, r.Sessions())
	if added := addTurn(t, r, other, repo.Turn{ID: turn.ID, Messages: users(1)}); added.Repeated {
		t.Error("a turn of another session is repeated")
	}
}

// An id is any text, and compared byte by byte.
func testTurnIDs(t *testing.T, r repo.Repositories) {
	id := create(t, r.Sessions())
	for i, text := range []string{
		"0b4a3c1e-5f52-4c43-9d0a-6f8d8c1f7f5e", "0B4A3C1E-5F52-4C43-9D0A-6F8D8C1F7F5E", "a", "A", "a ", " ", "é", "e\u0301", "'", "\\", "{}", "null", "\n",
		strings.Repeat("x", repo.MaxNameBytes), strings.Repeat("x", repo.MaxNameBytes-1),
	} {
		turn := repo.Turn{ID: text, Messages: users(1)}
		added := addTurn(t, r, id, turn)
		if added.Repeated || added.Messages[0].Sequence != int64(i) {
			t.Errorf("%q gave %+v", text, added)
		}
		wantRepeated(t, r, id, turn, added)
		turn.Messages = append(users(1), users(1)...)
		_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
		if got, ok := wantError[*repo.ExistsError](t, err, repo.ErrConflict); ok {
			wantEqual(t, got, repo.ExistsError{Kind: "turn", SessionID: id, Name: text})
		}
	}
}

// Without an id, a turn is recognized by the first id in it, as text.
func testTurnRepeatByOtherIDs(t *testing.T, r repo.Repositories) {
	id, scope := create(t, r.Sessions()), shared()
	message := fullMessage()
	for name, turn := range map[string]repo.Turn{
		"message":        {Messages: []repo.NewMessage{user("x"), message}, State: []repo.StateChange{increment(scope, "n", 1)}},
		"usage":          {Usage: &repo.NewUsage{ID: repo.NewID(), Cost: 1}, State: []repo.StateChange{increment(scope, "n", 1)}},
		"usage alone":    {Usage: &repo.NewUsage{ID: repo.NewID(), Cost: 1}},
		"usage, message": {Messages: users(2), Usage: &repo.NewUsage{ID: repo.NewID(), Cost: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			wantRepeated(t, r, id, turn, addTurn(t, r, id, turn))
		})
	}
	wantState(t, r, scope, map[string]string{"n": "2"})
	if got := get(t, r.Sessions(), id).Usage.Cost; got != 3 {
		t.Errorf("the cost is %d", got)
	}
	_, err := r.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, ID: message.ID.String(), Messages: users(1)})
	if got, ok := wantError[*repo.ExistsError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, repo.ExistsError{Kind: "turn", SessionID: id, Name: message.ID.String()})
	}
}

// A turn that has nothing but messages is recognized by their ids, also if an append has
// stored them, and the other way round.
func testTurnRepeatOfMessages(t *testing.T, r repo.Repositories) {
	s, id := r.Sessions(), create(t, r.Sessions())
	batch := withIDs(users(2))
	stored := appendTo(t, s, id, batch...)
	wantRepeated(t, r, id, repo.Turn{Messages: batch}, repo.AppendedTurn{Messages: stored})
	wantRepeated(t, r, id, repo.Turn{Messages: batch[1:], Expected: ptr(int64(0))}, repo.AppendedTurn{Messages: stored[1:]})
	more := withIDs(users(2))
	added := addTurn(t, r, id, repo.Turn{Messages: more, Expected: ptr(int64(2))})
	wantMessages(t, appendTo(t, s, id, more...), added.Messages)
	_, err := s.AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: []repo.NewMessage{batch[0], user("new")}})
	wantMessageConflict(t, err, id, batch[0].ID, "batch")
	other := batch[0]
	other.Content = secret
	_, err = s.AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: []repo.NewMessage{other}})
	wantMessageConflict(t, err, id, other.ID, "content")
	_, err = s.AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: users(1), Expected: ptr(int64(3))})
	wantSequenceConflict(t, err, repo.SequenceConflictError{Kind: "session", ID: id, Expected: 3, Next: 4})
}

func testTurnWithoutIDs(t *testing.T, r repo.Repositories) {
	id, scope := create(t, r.Sessions()), shared()
	turn := repo.Turn{Messages: users(1), State: []repo.StateChange{increment(scope, "n", 1)}, Usage: &repo.NewUsage{Cost: 1}}
	var versions []int64
	for range 3 {
		added := addTurn(t, r, id, turn)
		if added.Repeated {
			t.Error("a turn without ids is repeated")
		}
		versions = append(versions, added.Scopes[0].Version)
	}
	if versions[1] <= versions[0] || versions[2] <= versions[1] {
		t.Errorf("the versions are %v", versions)
	}
	wantCount(t, r.Sessions(), id, 3)
	wantState(t, r, scope, map[string]string{"n": "3"})
	if got := get(t, r.Sessions(), id).Usage.Cost; got != 3 {
		t.Errorf("the cost is %d", got)
	}
	if !turn.Messages[0].ID.IsZero() || !turn.Usage.ID.IsZero() || turn.State[0].Scope != scope {
		t.Errorf("the argument became %+v", turn)
	}
}

// The same id with other contents is a conflict, and changes nothing.
func testTurnConflicts(t *testing.T, r repo.Repositories) {
	id, scope := create(t, r.Sessions()), shared()
	turn := fullTurn(scope)
	addTurn(t, r, id, turn)
	before := recordedState(t, r, id)
	for name, change := range map[string]func(*repo.Turn){
		"content":         func(turn *repo.Turn) { turn.Messages[0].Content += "x" },
		"role":            func(turn *repo.Turn) { turn.Messages[0].Role = repo.RoleSystem },
		"message id":      func(turn *repo.Turn) { turn.Messages[1].ID = repo.NewID() },
		"no message id":   func(turn *repo.Turn) { turn.Messages[1].ID = repo.ID{} },
		"metadata":        func(turn *repo.Turn) { turn.Messages[1].Metadata = json.RawMessage(`{"a":2}`) },
		"payload":         func(turn *repo.Turn) { turn.Messages[1].Payload = nil },
		"no payload":      func(turn *repo.Turn) { turn.Messages[0].Payload = []byte{} },
		"time":            func(turn *repo.Turn) { turn.Messages[1].OccurredAt = turn.Messages[1].OccurredAt.AddDate(0, 0, 1) },
		"fewer messages":  func(turn *repo.Turn) { turn.Messages = turn.Messages[:1] },
		"no messages":     func(turn *repo.Turn) { turn.Messages = nil },
		"value":           func(turn *repo.Turn) { turn.State[0].Value = json.RawMessage(`"y"`) },
		"key":             func(turn *repo.Turn) { turn.State[0].Key = "x" },
		"scope":           func(turn *repo.Turn) { turn.State[0].Scope = shared() },
		"operation":       func(turn *repo.Turn) { turn.State[0] = unset(scope, "color") },
		"increment":       func(turn *repo.Turn) { turn.State[2].By++ },
		"order of state":  func(turn *repo.Turn) { slices.Reverse(turn.State) },
		"less state":      func(turn *repo.Turn) { turn.State = turn.State[:1] },
		"usage":           func(turn *repo.Turn) { turn.Usage.InputTokens++ },
		"another usage":   func(turn *repo.Turn) { turn.Usage.ID = repo.NewID() },
		"no usage":        func(turn *repo.Turn) { turn.Usage = nil },
		"nothing but one": func(turn *repo.Turn) { *turn = repo.Turn{ID: turn.ID, Messages: users(1)} },
	} {
		other := clone(turn)
		change(&other)
		_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, other))
		if got, ok := wantError[*repo.ExistsError](t, err, repo.ErrConflict); ok {
			wantEqual(t, got, repo.ExistsError{Kind: "turn", SessionID: id, Name: turn.ID})
		} else {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantSame(t, "session", recordedState(t, r, id), before)
	// Written otherwise, it is the same.
	again := clone(turn)
	again.Messages[1].Metadata = json.RawMessage(" {\"b\":[\"\\u00e9\", 2.50],\n\"a\":1}")
	again.State[0].Op, again.State[1].Scope = repo.StateSet, repo.Scope{SessionID: id}
	again.State[2].AtMost, again.State[2].AtLeast = new(int64), nil // a limit that was lowered meanwhile
	if !addTurn(t, r, id, again).Repeated {
		t.Error("the same turn, written otherwise, is not repeated")
	}
}

// With Existing the id alone decides, whatever the turn has now: fewer messages, more, others,
// none, and conditions that do not hold.
func testTurnExisting(t *testing.T, r repo.Repositories) {
	s, scope := r.Sessions(), shared()
	id := createAs(t, s, repo.NewSession{Budget: ptr(repo.Cost(5))}).ID
	appendTo(t, s, id, user("first"))
	turn := fullTurn(scope)
	turn.Existing = true
	added := addTurn(t, r, id, turn)
	if added.Repeated {
		t.Error("a new turn is repeated")
	}
	wantStored(t, id, 1, turn.Messages, added.Messages)
	appendTo(t, s, id, users(2)...)
	version := change(t, r, set(scope, "color", `"other"`))
	known := readAll(t, s, id)[0]
	for name, other := range map[string]repo.Turn{
		"the same":    turn,
		"fewer":       {Messages: users(1)},
		"more":        {Messages: users(5)},
		"a known id":  {Messages: []repo.NewMessage{{ID: known.ID, Role: repo.RoleUser, Content: "other"}}},
		"their ids":   {Messages: []repo.NewMessage{{ID: added.Messages[1].ID, Role: repo.RoleUser, Content: "other"}}},
		"state":       {State: []repo.StateChange{increment(scope, "color", 1)}},
		"a new scope": {State: []repo.StateChange{set(shared(), "a", `1`)}},
		"usage":       {Usage: &repo.NewUsage{ID: turn.Usage.ID, Cost: 100}},
		"conditions": {
			Messages: users(1), Expected: ptr(int64(1000)), Fence: 99, IfScopes: []repo.ScopeVersion{{Scope: scope, Version: version + 5}},
		},
	} {
		other.ID, other.Existing = turn.ID, true
		before := recordedState(t, r, id)
		again := addTurn(t, r, id, other)
		if !again.Repeated || again.Created || again.SessionID != id {
			t.Errorf("%s: %+v", name, again)
		}
		wantMessages(t, again.Messages, added.Messages)
		if (again.Usage == nil) != (other.Usage == nil) || len(again.Scopes) > 0 != (len(other.State) > 0) {
			t.Errorf("%s: the scopes are %+v, the usage is %+v", name, again.Scopes, again.Usage)
		}
		wantSame(t, name, recordedState(t, r, id), before)
		// Without it the contents are compared.
		if other.Existing = false; name != "the same" {
			other.SessionID = id
			_, err := s.AppendTurn(t.Context(), other)
			_, _ = wantError[*repo.ExistsError](t, err, repo.ErrConflict)
		}
	}
	wantState(t, r, scope, map[string]string{"color": `"other"`, "n": "3"})
	// What is stored without it is found with it. A turn may have no messages.
	for _, stored := range []repo.Turn{{Messages: users(2)}, {State: []repo.StateChange{increment(scope, "n", 1)}}} {
		stored.ID = randomName()
		added := addTurn(t, r, id, stored)
		again := addTurn(t, r, id, repo.Turn{ID: stored.ID, Existing: true, Messages: users(1)})
		if !again.Repeated || (again.Messages == nil) != (added.Messages == nil) {
			t.Errorf("%+v again: %+v", added, again)
		}
		wantMessages(t, again.Messages, added.Messages)
	}
	wantExistingChecked(t, r, id, turn)
}

// wantExistingChecked wants that the id of a stored turn is one of its session, of a turn that has one, and that values are checked all
// the same.
func wantExistingChecked(t *testing.T, r repo.Repositories, id repo.ID, turn repo.Turn) {
	t.Helper()
	s := r.Sessions()
	if added := addTurn(t, r, create(t, s), turn); added.Repeated {
		t.Error("a turn of another session is repeated")
	}
	_, err := s.AppendTurn(t.Context(), repo.Turn{SessionID: id, Existing: true, Messages: withIDs(users(1))})
	wantInvalid(t, err, "existing")
	_, err = s.AppendTurn(t.Context(), repo.Turn{SessionID: id, ID: turn.ID, Existing: true, Messages: []repo.NewMessage{{Content: "x"}}})
	wantInvalid(t, err, "messages[0].role")
	turn.SessionID = repo.NewID()
	_, err = s.AppendTurn(t.Context(), turn)
	_, _ = wantError[*repo.NotFoundError](t, err, repo.ErrNotFound)
	// The session takes only turns with a token by now.
	update(t, s, id, repo.SessionUpdate{FencedOnly: ptr(true)})
	if again := addTurn(t, r, id, turn); !again.Repeated {
		t.Errorf("without a token: %+v", again)
	}
}

// Some of several turns are stored, and others are not.
func testTurnExistingOfSeveral(t *testing.T, r repo.Repositories) {
	ids, scope := []repo.ID{create(t, r.Sessions()), create(t, r.Sessions()), repo.NewID()}, shared()
	var first, second []repo.Turn
	for i, id := range ids {
		turn := repo.Turn{SessionID: id, ID: randomName(), Existing: true, Create: &repo.NewSession{}, Messages: users(i + 1)}
		first = append(first, turn)
		turn.Messages, turn.State = users(5), []repo.StateChange{increment(scope, "n", 1)}
		second = append(second, turn)
	}
	added := addTurns(t, r, first[:2]...)
	again := addTurns(t, r, second...)
	if !again[0].Repeated || !again[1].Repeated || again[2].Repeated || !again[2].Created {
		t.Errorf("the turns gave %+v", again)
	}
	for i := range 2 {
		wantMessages(t, again[i].Messages, added[i].Messages)
		wantCount(t, r.Sessions(), ids[i], i+1)
	}
	wantCount(t, r.Sessions(), ids[2], 5)
	wantState(t, r, scope, map[string]string{"n": "1"})
	for i, turn := range addTurns(t, r, first...) {
		if !turn.Repeated || turn.Created {
			t.Errorf("once more, the turn %d is %+v", i, turn)
		}
	}
	// By a key, too.
	key := repo.SessionKey{Namespace: spaceOf(r), Key: "a"}
	named := repo.Turn{ID: randomName(), Existing: true, Create: &repo.NewSession{Namespace: key.Namespace, Key: key.Key}, Messages: users(1)}
	created := addTurn(t, r, repo.ID{}, named)
	named.Messages = users(3)
	found := addTurn(t, r, repo.ID{}, named)
	if !created.Created || !found.Repeated || found.Created || found.SessionID != created.SessionID {
		t.Errorf("by the key: %+v, then %+v", created, found)
	}
	wantMessages(t, found.Messages, created.Messages)
}

// A turn that has an id can be asked for by it.
func testTurnByID(t *testing.T, r repo.Repositories) {
	s, scope := r.Sessions(), shared()
	id := create(t, s)
	appendTo(t, s, id, user("first"))
	turn := fullTurn(scope)
	added := addTurn(t, r, id, turn)
	appendTo(t, s, id, user("last"))
	stored, err := s.Turn(t.Context(), id, turn.ID)
	if must(t, stored, err); !stored.Repeated || stored.SessionID != id || stored.Created || stored.Scopes != nil || stored.Usage != nil {
		t.Errorf("the turn is %+v", stored)
	}
	wantMessages(t, stored.Messages, added.Messages)
	// The first id among those of its messages and usage is the key of one that was given none.
	message := fullMessage()
	added = addTurn(t, r, id, repo.Turn{Messages: []repo.NewMessage{user("x"), message}, Usage: &repo.NewUsage{}})
	stored, err = s.Turn(t.Context(), id, message.ID.String())
	wantMessages(t, must(t, stored, err).Messages, added.Messages)
	alone := repo.NewID()
	addTurn(t, r, id, repo.Turn{Usage: &repo.NewUsage{ID: alone}})
	stored, err = s.Turn(t.Context(), id, alone.String())
	if must(t, stored, err).Messages != nil {
		t.Errorf("a turn without messages is %+v", stored)
	}
	appended := appendTo(t, s, id, withIDs(users(1))...)
	for _, other := range []string{"other", strings.ToUpper(turn.ID) + "x", appended[0].ID.String()} { // an append is no turn with an id
		_, err = s.Turn(t.Context(), id, other)
		if got, ok := wantError[*repo.NotFoundError](t, err, repo.ErrNotFound); ok {
			wantEqual(t, got, repo.NotFoundError{Kind: "turn", Name: other})
		}
	}
	_, err = s.Turn(t.Context(), create(t, s), turn.ID)
	if got, ok := wantError[*repo.NotFoundError](t, err, repo.ErrNotFound); ok {
		wantEqual(t, got, repo.NotFoundError{Kind: "turn", Name: turn.ID})
	}
	missing := repo.NewID()
	_, err = s.Turn(t.Context(), missing, turn.ID)
	wantNotFound(t, err, "session", missing)
	for _, invalid := range []string{"", "a\x00", "a\xff", strings.Repeat("x", repo.MaxNameBytes+1)} {
		_, err = s.Turn(t.Context(), id, invalid)
		wantInvalid(t, err, "id")
	}
	remove(t, s, id)
	_, err = s.Turn(t.Context(), id, turn.ID)
	_, _ = wantError[*repo.NotFoundError](t, err, repo.ErrNotFound)
}

// A message that an append or another turn has stored cannot be in a turn that has more
// than messages: what else the turn has is not stored.
func testTurnKnownMessage(t *testing.T, r repo.Repositories) {
	id, scope := create(t, r.Sessions()), shared()
	message := fullMessage()
	appendTo(t, r.Sessions(), id, message)
	for _, turn := range []repo.Turn{
		{ID: randomName(), Messages: []repo.NewMessage{message}},
		{Messages: []repo.NewMessage{message}, State: []repo.StateChange{set(scope, "a", `1`)}},
		{Messages: []repo.NewMessage{user("x"), message}, Usage: &repo.NewUsage{}},
	} {
		_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
		wantMessageConflict(t, err, id, message.ID, "turn")
	}
	wantCount(t, r.Sessions(), id, 1)
	wantState(t, r, scope, map[string]string{})
}

// Usage that was added already is not added again, and what else the turn has is stored.
func testTurnKnownUsage(t *testing.T, r repo.Repositories) {
	id := createAs(t, r.Sessions(), repo.NewSession{Budget: ptr(repo.Cost(3))}).ID
	once := repo.NewUsage{ID: repo.NewID(), InputTokens: 1, Cost: 2}
	_, err := r.Sessions().AddUsage(t.Context(), id, once)
	must(t, once, err)
	added := addTurn(t, r, id, repo.Turn{ID: randomName(), Messages: users(1), Usage: &once})
	if added.Repeated || len(added.Messages) != 1 || added.Usage.Cost != 2 {
		t.Errorf("the turn gave %+v", added)
	}
	// And the other way round.
	turn := repo.Turn{Messages: users(1), Usage: &repo.NewUsage{ID: repo.NewID(), Cost: 1}}
	addTurn(t, r, id, turn)
	total, err := r.Sessions().AddUsage(t.Context(), id, *turn.Usage)
	if must(t, total, err).Cost != 3 {
		t.Errorf("the total is %+v", total)
	}
	wantCount(t, r.Sessions(), id, 2)
}

// The first of several reasons is told.
func testTurnOrder(t *testing.T, r repo.Repositories) {
	scope := shared()
	id := createAs(t, r.Sessions(), repo.NewSession{Budget: ptr(repo.Cost(0))}).ID
	known, version := fullMessage(), change(t, r, set(scope, "text", `"x"`))
	appendTo(t, r.Sessions(), id, known)
	stored := repo.Turn{ID: randomName(), Messages: users(1)}
	addTurn(t, r, id, stored)
	lost := leaseOf(t, r, repo.LeaseKey{Kind: repo.LeaseOfSession, Name: id.String()})
	lease := overtake(t, r, lost)
	turn := repo.Turn{
		ID: stored.ID, Messages: []repo.NewMessage{known}, Expected: ptr(int64(0)), After: ptr(int64(9)), Fence: lost.Fence,
		IfScopes: []repo.ScopeVersion{{Scope: scope}},
		State:    []repo.StateChange{increment(scope, "text", 1)},
		Usage:    &repo.NewUsage{Cost: 1},
	}
	try := func() error {
		_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
		return err
	}
	_, _ = wantError[*repo.ExistsError](t, try(), repo.ErrConflict)
	turn.ID = randomName()
	wantMessageConflict(t, try(), id, known.ID, "turn")
	turn.Messages = users(1)
	_, _ = wantError[*repo.FencedError](t, try(), repo.ErrConflict)
	turn.Fence = lease.Fence
	wantSequenceConflict(t, try(), repo.SequenceConflictError{Kind: "session", ID: id, Expected: 0, Next: 2})
	turn.Expected = nil
	wantInvalid(t, try(), "after")
	turn.After = nil
	wantStateConflict(t, try(), repo.VersionConflictError{Kind: "state", Scope: scope, Actual: version})
	turn.IfScopes = nil
	_, _ = wantError[*repo.RefusedError](t, try(), repo.ErrConflict)
	turn.State = nil
	wantBudgetExceeded(t, try(), repo.LimitExceededError{Kind: "budget", ID: id, Requested: 1})
}

func testTurnCreate(t *testing.T, r repo.Repositories) {
	s, scope := r.Sessions(), shared()
	id := repo.NewID()
	given := fullSession(r)
	given.ID, given.Key = repo.ID{}, ""
	turn := fullTurn(scope)
	turn.Create = &given
	// A turn that is refused creates nothing.
	turn.Expected = ptr(int64(1))
	_, err := s.AppendTurn(t.Context(), inSession(id, turn))
	wantSequenceConflict(t, err, repo.SequenceConflictError{Kind: "session", ID: id, Expected: 1})
	_, err = s.Get(t.Context(), id)
	wantNotFound(t, err, "session", id)
	wantState(t, r, scope, map[string]string{})
	turn.Expected = ptr(int64(0))
	added := addTurn(t, r, id, turn)
	if !added.Created || added.Repeated {
		t.Errorf("the turn gave created: %v, repeated: %v", added.Created, added.Repeated)
	}
	wantStored(t, id, 0, turn.Messages, added.Messages)
	wantState(t, r, scope, map[string]string{"color": `"` + secret + `"`, "n": "3"})
	session := get(t, s, id)
	if session.Actor != given.Actor || session.Namespace != given.Namespace || session.MessageCount != 2 {
		t.Errorf("the session is %+v", session)
	}
	wantRepeated(t, r, id, turn, added)
	// One that exists is left as it is.
	turn = repo.Turn{Messages: users(1), Create: &repo.NewSession{Actor: "other"}}
	if added := addTurn(t, r, id, turn); added.Created || get(t, s, id).Actor != given.Actor {
		t.Errorf("a session that exists: %+v", added)
	}
	// By its key.
	key := repo.SessionKey{Namespace: spaceOf(r), Key: "a/b"}
	named := bykey.Of(s, key)
	_, err = named.AppendTurn(t.Context(), repo.Turn{Messages: users(1)})
	wantNoKey(t, err, key)
	added, err = named.AppendTurn(t.Context(), repo.Turn{Messages: users(1), Create: &repo.NewSession{Key: "other", Existing: repo.ExistingNone}})
	if must(t, added, err); !added.Created || added.SessionID != find(t, s, key) || get(t, s, added.SessionID).Key != key.Key {
		t.Errorf("by its key: %+v", added)
	}
	// A turn of messages creates, too.
	id = repo.NewID()
	turn.Create.ID = id
	if added := addTurn(t, r, id, turn); !added.Created || added.Messages[0].Sequence != 0 {
		t.Errorf("a turn of messages gave %+v", added)
	}
	wantCount(t, s, id, 1)
}

func testTurnIDsGoWithSession(t *testing.T, r repo.Repositories) {
	id, scope := create(t, r.Sessions()), shared()
	turn := fullTurn(scope)
	addTurn(t, r, id, turn)
	remove(t, r.Sessions(), id)
	_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
	wantNotFound(t, err, "session", id)
	if added := addTurn(t, r, create(t, r.Sessions()), turn); added.Repeated || added.Messages[0].Sequence != 0 {
		t.Errorf("in a new session: %+v", added)
	}
	wantState(t, r, scope, map[string]string{"color": `"` + secret + `"`, "n": "6"})
}

// A scope that was erased is at version 0 again, also in the result of a repeated turn.
func testTurnScopeErased(t *testing.T, r repo.Repositories) {
	id, scope := create(t, r.Sessions()), shared()
	turn := repo.Turn{ID: randomName(), State: []repo.StateChange{set(scope, "a", `1`)}}
	version := addTurn(t, r, id, turn).Scopes[0].Version
	if _, err := r.State().Erase(t.Context(), scope.Name); err != nil {
		t.Fatal(err)
	}
	again := addTurn(t, r, id, turn)
	wantSame(t, "scopes", again.Scopes, []repo.ScopeVersion{{Scope: scope}})
	wantState(t, r, scope, map[string]string{})
	turn.ID = ""
	turn.IfScopes = []repo.ScopeVersion{{Scope: scope}}
	if got := addTurn(t, r, id, turn).Scopes[0].Version; got <= version {
		t.Errorf("the version is %d, after %d", got, version)
	}
}

// inTxUntilItStays is appendInTx in the order of the sessions, so that transactions wait for each other in one order, and again if
// another one was in its way.
func inTxUntilItStays(ctx context.Context, store repo.Store, turns ...repo.Turn) ([]repo.AppendedTurn, error) {
	turns = slices.SortedStableFunc(slices.Values(turns), func(a, b repo.Turn) int { return a.SessionID.Compare(b.SessionID) })
	for {
		if added, err := appendInTx(ctx, store, turns...); !errors.Is(err, repo.ErrContention) {
			return added, err
		}
	}
}

// addTurns adds turns one after the other.
func addTurns(t *testing.T, r repo.Repositories, turns ...repo.Turn) (added []repo.AppendedTurn) {
	t.Helper()
	for _, turn := range turns {
		added = append(added, addTurn(t, r, turn.SessionID, turn))
	}
	return added
}

// appendInTx adds turns in one transaction.
func appendInTx(ctx context.Context, store repo.Store, turns ...repo.Turn) (added []repo.AppendedTurn, err error) {
	err = store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		added = nil
		for _, turn := range turns {
			one, err := tx.Sessions().AppendTurn(ctx, turn)
			if err != nil {
				return err
			}
			added = append(added, one)
		}
		return nil
	})
	return added, err
}

// If one turn of a transaction is refused, none is stored.
// Guarantee: Turns: Turns of one transaction are all stored, or none.
func testTurnsAllOrNone(t *testing.T, r repo.Store) {
	s, scope := r.Sessions(), shared()
	id, missing := create(t, s), repo.NewID()
	known := fullMessage()
	appendTo(t, s, id, known)
	before := recordedState(t, r, id)
	good := inSession(id, fullTurn(scope))
	beside := inSession(create(t, s), fullTurn(scope))
	besideBefore := recordedState(t, r, beside.SessionID)
	made := repo.Turn{SessionID: repo.NewID(), Messages: users(1), Create: &repo.NewSession{}}
	try := func(bad repo.Turn) (err error) {
		t.Helper()
		for _, turns := range [][]repo.Turn{{good, made, bad}, {good, beside, bad}} {
			if _, err = appendInTx(t.Context(), r, turns...); err == nil {
				t.Error("turns were stored of which one is refused")
			}
			wantSame(t, "session", recordedState(t, r, id), before)
			wantSame(t, "session", recordedState(t, r, beside.SessionID), besideBefore)
			wantState(t, r, scope, map[string]string{})
			_, missing := s.Get(t.Context(), made.SessionID)
			wantNotFound(t, missing, "session", made.SessionID)
		}
		return err
	}
	wantNotFound(t, try(repo.Turn{SessionID: missing, Messages: users(1)}), "session", missing)
	wantSequenceConflict(t, try(repo.Turn{SessionID: id, Messages: users(1), Expected: ptr(int64(1))}),
		repo.SequenceConflictError{Kind: "session", ID: id, Expected: 1, Next: 3})
	other := known
	other.Content = "other"
	wantMessageConflict(t, try(repo.Turn{SessionID: id, Messages: []repo.NewMessage{other}}), id, known.ID, "content")
	wantMessageConflict(t, try(repo.Turn{SessionID: id, ID: randomName(), Messages: []repo.NewMessage{known}}), id, known.ID, "turn")
	if _, ok := wantError[*repo.RefusedError](t, try(repo.Turn{
		SessionID: id,
		State:     []repo.StateChange{increment(scope, "color", 1)}, // which good has set to a text
	}), repo.ErrConflict); !ok {
		t.Error("the second turn did not meet what the first has changed")
	}
}

// Several turns of one session are added one after the other.
func testTurnsOnOne(t *testing.T, r repo.Repositories) {
	id := create(t, r.Sessions())
	var turns []repo.Turn
	for i := range 3 {
		turns = append(turns, repo.Turn{
			SessionID: id,
			Messages:  users(2), Expected: ptr(int64(2 * i)), State: []repo.StateChange{increment(repo.Scope{}, "n", 1)}, Usage: &repo.NewUsage{Cost: 1},
		})
	}
	for i, added := range addTurns(t, r, turns...) {
		wantStored(t, id, int64(2*i), turns[i].Messages, added.Messages)
		if added.Usage.Cost != repo.Cost(i+1) {
			t.Errorf("after turn %d the cost is %d", i, added.Usage.Cost)
		}
	}
	wantCount(t, r.Sessions(), id, 6)
	wantState(t, r, repo.Scope{SessionID: id}, map[string]string{"n": "3"})
}

// Turns that are added in a transaction are seen, and stored, with it only.
func testTurnsRolledBack(t *testing.T, s repo.Store) {
	id, scope := create(t, s.Sessions()), shared()
	change(t, s, set(scope, "n", `0`))
	addTurn(t, s, id, repo.Turn{State: []repo.StateChange{set(repo.Scope{}, "n", `0`)}})
	turn := repo.Turn{
		SessionID: id,
		Messages:  users(1), Usage: &repo.NewUsage{Cost: 1},
		State: []repo.StateChange{increment(scope, "n", 1), increment(repo.Scope{}, "n", 1)},
	}
	want := "0"
	for _, fails := range []bool{true, false} {
		failed := errors.New("rolled back")
		err := s.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			for range 2 {
				if _, err := tx.Sessions().AppendTurn(ctx, turn); err != nil {
					return err
				}
			}
			wantState(t, tx, scope, map[string]string{"n": "2"})
			wantState(t, s, scope, map[string]string{"n": "0"})
			wantCount(t, s.Sessions(), id, 0)
			if fails {
				return failed
			}
			return nil
		})
		if fails != errors.Is(err, failed) {
			t.Fatal(err)
		}
		if !fails {
			want = "2"
		}
		wantState(t, s, scope, map[string]string{"n": want})
		wantState(t, s, repo.Scope{SessionID: id}, map[string]string{"n": want})
		if got := fmt.Sprint(int64(get(t, s.Sessions(), id).Usage.Cost)); got != want {
			t.Errorf("the cost is %s, want %s", got, want)
		}
	}
	wantCount(t, s.Sessions(), id, 2)
}

// A message, a turn and a usage of one session may have the same id.
func testTurnIDsOfOtherKinds(t *testing.T, r repo.Repositories) {
	id, same := create(t, r.Sessions()), repo.NewID()
	message := user("x")
	message.ID = same
	added := addTurns(t, r,
		repo.Turn{SessionID: id, Messages: []repo.NewMessage{message}},
		repo.Turn{SessionID: id, ID: same.String(), State: []repo.StateChange{set(repo.Scope{}, "a", `1`)}},
		repo.Turn{SessionID: id, ID: randomName(), Usage: &repo.NewUsage{ID: same, Cost: 1}},
	)
	for i, turn := range added {
		if turn.Repeated {
			t.Errorf("turn %d is repeated", i)
		}
	}
	wantCount(t, r.Sessions(), id, 1)
	wantState(t, r, repo.Scope{SessionID: id}, map[string]string{"a": "1"})
}

// The messages of turns are found by their call.
func testTurnCalls(t *testing.T, r repo.Repositories) {
	id := create(t, r.Sessions())
	call := func(content string) repo.NewMessage {
		return repo.NewMessage{Role: repo.RoleTool, Content: content, CallID: "call"}
	}
	addTurn(t, r, id, repo.Turn{Messages: []repo.NewMessage{user("x"), call("a")}, State: []repo.StateChange{set(repo.Scope{}, "a", `1`)}})
	addTurn(t, r, id, repo.Turn{Messages: []repo.NewMessage{call("b")}})
	addTurn(t, r, id, repo.Turn{Messages: []repo.NewMessage{call("c")}, Usage: &repo.NewUsage{Cost: 1}})
	addTurns(t, r, repo.Turn{SessionID: id, Messages: []repo.NewMessage{call("d"), user("y")}})
	found, err := r.Sessions().MessagesOfCall(t.Context(), id, "call")
	var contents []string
	for _, m := range must(t, found, err) {
		contents = append(contents, m.Content)
	}
	wantSame(t, "messages of the call", contents, []string{"a", "b", "c", "d"})
}

// Usage does not set UpdatedAt, as in AddUsage, and messages do.
func testTurnUsageIsNoActivity(t *testing.T, r repo.Repositories) {
	id := create(t, r.Sessions())
	before := get(t, r.Sessions(), id).UpdatedAt
	tick()
	addTurn(t, r, id, repo.Turn{Usage: &repo.NewUsage{Cost: 1}, State: []repo.StateChange{set(repo.Scope{}, "a", `1`)}})
	if got := get(t, r.Sessions(), id).UpdatedAt; !got.Equal(before) {
		t.Errorf("usage has set UpdatedAt from %v to %v", before, got)
	}
	tick()
	addTurn(t, r, id, repo.Turn{Usage: &repo.NewUsage{Cost: 1}, Messages: users(1)})
	if got := get(t, r.Sessions(), id).UpdatedAt; !got.After(before) {
		t.Errorf("a message has left UpdatedAt at %v", got)
	}
}

// Writers of different keys of one scope never lose one. The naive way reads the whole
// map and writes it back in the next turn, and loses some.
func testTurnRacingKeys(t *testing.T, store repo.Store) {
	const writers, keys = 8, 50
	sessions := make([]repo.ID, writers)
	for i := range sessions {
		sessions[i] = create(t, store.Sessions())
	}
	write := func(change func(writer, i int) repo.StateChange) {
		together(writers, func(writer int) {
			for i := range keys {
				if _, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{
					SessionID: sessions[writer],
					Messages:  users(1), State: []repo.StateChange{change(writer, i)},
				}); err != nil {
					t.Errorf("key %d of writer %d: %v", i, writer, err)
					return
				}
			}
		})
	}
	scope := shared()
	write(func(writer, i int) repo.StateChange { return set(scope, fmt.Sprintf("%d/%d", writer, i), `1`) })
	found := map[string]bool{}
	for _, value := range listState(t, store, scope, "", 100) {
		found[value.Key] = true
	}
	if len(found) != writers*keys {
		t.Errorf("%d of %d keys were lost", writers*keys-len(found), writers*keys)
	}
	scope, meet := shared(), meeting(t)
	write(func(writer, i int) repo.StateChange {
		whole := map[string]int{}
		if value, err := store.State().Get(t.Context(), scope, "map"); err == nil {
			if err := json.Unmarshal(value.Value, &whole); err != nil {
				t.Error(err)
			}
		}
		meet()
		whole[fmt.Sprintf("%d/%d", writer, i)] = 1
		text, err := json.Marshal(whole)
		if err != nil {
			t.Error(err)
		}
		return set(scope, "map", string(text))
	})
	whole := map[string]int{}
	if err := json.Unmarshal(getState(t, store, scope, "map").Value, &whole); err != nil {
		t.Fatal(err)
	}
	if len(whole) == writers*keys {
		t.Error("the naive way lost no key: this test would not find a loss")
	}
}

func testTurnRacingIncrements(t *testing.T, store repo.Store) {
	const rounds = 10
	scope, other := shared(), shared()
	together(workers, func(int) {
		id := create(t, store.Sessions())
		for i := range rounds {
			state := []repo.StateChange{increment(scope, "n", 1), increment(repo.Scope{}, "n", 1)}
			if i%2 == 0 {
				state = append(state, increment(other, "n", 2))
			}
			if _, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: users(1), State: state}); err != nil {
				t.Error(err)
			}
		}
		wantState(t, store, repo.Scope{SessionID: id}, map[string]string{"n": fmt.Sprint(rounds)})
	})
	wantState(t, store, scope, map[string]string{"n": fmt.Sprint(workers * rounds)})
	wantState(t, store, other, map[string]string{"n": fmt.Sprint(workers * rounds)})
}

// Each turn that changes a scope has a version of its own, and the value that stays
// is that of the highest version.
func testTurnRacingVersions(t *testing.T, store repo.Store) {
	const rounds = 10
	scope := shared()
	values := make([][]repo.ScopeVersion, workers)
	together(workers, func(worker int) {
		id := create(t, store.Sessions())
		for i := range rounds {
			turn := repo.Turn{State: []repo.StateChange{set(scope, "last", fmt.Sprint(worker*rounds+i))}}
			if worker%2 == 0 {
				turn.Messages = users(1)
			}
			added, err := store.Sessions().AppendTurn(t.Context(), inSession(id, turn))
			if err != nil {
				t.Error(err)
				return
			}
			values[worker] = append(values[worker], added.Scopes[0])
		}
	})
	all := map[int64]int{}
	var last int64
	for worker, versions := range values {
		for i, v := range versions {
			all[v.Version] = worker*rounds + i
			last = max(last, v.Version)
		}
	}
	if len(all) != workers*rounds {
		t.Errorf("%d turns have %d versions", workers*rounds, len(all))
	}
	if got := getState(t, store, scope, "last"); got.Version != last || string(got.Value) != fmt.Sprint(all[last]) {
		t.Errorf("the value is %s at version %d, want %d at %d", got.Value, got.Version, all[last], last)
	}
}

// Of several turns with one condition exactly one is stored.
func testTurnRacingConditions(t *testing.T, store repo.Store) {
	for range 5 {
		scope := shared()
		var stored, refused counter
		together(workers, func(worker int) {
			id := create(t, store.Sessions())
			turn := repo.Turn{Messages: users(1), State: []repo.StateChange{ifVersion(set(scope, "a", fmt.Sprint(worker)), 0)}}
			if worker%2 == 0 {
				turn.State, turn.IfScopes = []repo.StateChange{set(scope, "b", `1`)}, []repo.ScopeVersion{{Scope: scope}}
			}
			_, err := store.Sessions().AppendTurn(t.Context(), inSession(id, turn))
			if err == nil {
				stored.add()
				wantCount(t, store.Sessions(), id, 1)
				return
			}
			_, _ = wantError[*repo.VersionConflictError](t, err, repo.ErrConflict)
			refused.add()
			wantCount(t, store.Sessions(), id, 0)
		})
		values, _ := readState(t, store, scope)
		if stored.get() != len(values) || stored.get() > 2 || stored.get()+refused.get() != workers {
			t.Errorf("%d turns were stored, %d refused; the state is %v", stored.get(), refused.get(), values)
		}
	}
}

// Callers that add one turn concurrently all get its result, and one of them has added
// it.
// Guarantee: Turns: A turn is stored once under its id.
func testTurnRacingID(t *testing.T, store repo.Store) {
	for range 10 {
		id, scope := create(t, store.Sessions()), shared()
		turn := fullTurn(scope)
		var added counter
		together(16, func(int) {
			got, err := store.Sessions().AppendTurn(t.Context(), inSession(id, turn))
			if err != nil || len(got.Messages) != 2 || got.Messages[0].Sequence != 0 || got.Usage.Cost != 3 {
				t.Errorf("%+v, %v", got, err)
			}
			if !got.Repeated {
				added.add()
			}
		})
		if added.get() != 1 {
			t.Errorf("%d callers added the turn", added.get())
		}
		wantCount(t, store.Sessions(), id, 2)
		wantState(t, store, scope, map[string]string{"color": `"` + secret + `"`, "n": "3"})
		if got := get(t, store.Sessions(), id).Usage.Cost; got != 3 {
			t.Errorf("the cost is %d", got)
		}
	}
}

// Of several callers with turns of one id and contents of their own, one stores its turn, and all
// get that.
func testTurnRacingExisting(t *testing.T, store repo.Store) {
	for range 10 {
		id := create(t, store.Sessions())
		var added counter
		together(16, func(worker int) {
			turn := repo.Turn{SessionID: id, ID: "regenerate", Existing: true, Messages: users(1 + worker%3)}
			if worker%2 == 0 {
				turn.State = []repo.StateChange{set(repo.Scope{}, "by", fmt.Sprint(worker))}
			}
			got, err := store.Sessions().AppendTurn(t.Context(), turn)
			if err != nil {
				t.Error(err)
				return
			}
			if !got.Repeated {
				added.add()
			}
			stored, err := store.Sessions().Turn(t.Context(), id, turn.ID)
			wantMessages(t, got.Messages, must(t, stored, err).Messages)
			wantMessages(t, got.Messages, readAll(t, store.Sessions(), id))
		})
		if added.get() != 1 {
			t.Errorf("%d callers added the turn", added.get())
		}
	}
}

// Of several turns that create a session one has created it, and all are stored.
func testTurnRacingCreate(t *testing.T, store repo.Store) {
	for range 5 {
		id, scope := repo.NewID(), shared()
		var created counter
		together(16, func(worker int) {
			turn := repo.Turn{Messages: users(1), Create: &repo.NewSession{Actor: fmt.Sprint("actor/", worker)}}
			if worker%2 == 0 {
				turn.State = []repo.StateChange{increment(scope, "n", 1), increment(repo.Scope{}, "n", 1)}
			}
			added, err := store.Sessions().AppendTurn(t.Context(), inSession(id, turn))
			if err != nil {
				t.Error(err)
				return
			}
			if added.Created {
				created.add()
				if got := get(t, store.Sessions(), id).Actor; got != fmt.Sprint("actor/", worker) {
					t.Errorf("worker %d is said to have created it, but the actor is %s", worker, got)
				}
			}
		})
		if created.get() != 1 {
			t.Errorf("%d callers created the session", created.get())
		}
		wantCount(t, store.Sessions(), id, 16)
		wantState(t, store, scope, map[string]string{"n": "8"})
		wantState(t, store, repo.Scope{SessionID: id}, map[string]string{"n": "8"})
	}
}

// Turns together never exceed the budget, and a refused one leaves nothing.
func testTurnRacingBudget(t *testing.T, store repo.Store) {
	const budget = 10
	id := createAs(t, store.Sessions(), repo.NewSession{Budget: ptr(repo.Cost(budget))}).ID
	together(workers, func(worker int) {
		var err error
		if worker%4 == 0 {
			_, err = store.Sessions().AddUsage(t.Context(), id, repo.NewUsage{Cost: 1})
		} else {
			_, err = store.Sessions().AppendTurn(t.Context(), repo.Turn{
				SessionID: id,
				Messages:  users(1), State: []repo.StateChange{increment(repo.Scope{}, "n", 1)}, Usage: &repo.NewUsage{InputTokens: 1, Cost: 1},
			})
		}
		if err != nil {
			_, _ = wantError[*repo.LimitExceededError](t, err, repo.ErrLimit)
		}
	})
	session := get(t, store.Sessions(), id)
	if session.Usage.Cost != budget || session.Usage.InputTokens != session.MessageCount {
		t.Errorf("the session has %d messages and %+v", session.MessageCount, session.Usage)
	}
	if session.MessageCount > 0 {
		wantState(t, store, repo.Scope{SessionID: id}, map[string]string{"n": fmt.Sprint(session.MessageCount)})
	}
}

// Transactions of several sessions and scopes are all made beside turns by themselves.
func testTurnsRacingInTx(t *testing.T, store repo.Store) {
	const rounds = 10
	ids, scopes := make([]repo.ID, 4), make([]repo.Scope, 3)
	for i := range ids {
		ids[i] = create(t, store.Sessions())
	}
	for i := range scopes {
		scopes[i] = shared()
	}
	together(16, func(worker int) {
		for i := range rounds {
			turns := make([]repo.Turn, len(ids))
			for j := range turns {
				at := (worker + i + j) % len(ids)
				turns[j] = repo.Turn{
					SessionID: ids[at],
					Messages:  users(1), State: []repo.StateChange{increment(scopes[(worker+j)%len(scopes)], "n", 1)},
				}
			}
			if worker%4 == 0 {
				if _, err := store.Sessions().AppendTurn(t.Context(), turns[0]); err != nil {
					t.Error(err)
				}
				continue
			}
			if _, err := inTxUntilItStays(t.Context(), store, turns...); err != nil {
				t.Error(err)
			}
		}
	})
	count, sum := int64(0), 0
	for _, id := range ids {
		count += int64(len(readAll(t, store.Sessions(), id)))
	}
	for _, scope := range scopes {
		var n int
		if err := json.Unmarshal(getState(t, store, scope, "n").Value, &n); err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if want := 12*rounds*len(ids) + 4*rounds; count != int64(want) || sum != want {
		t.Errorf("%d messages and a sum of %d, want %d", count, sum, want)
	}
}

// Transactions of which one turn is refused leave nothing, and change nothing for those that
// others add to the same sessions and scopes meanwhile.
func testTurnsRacingRefusals(t *testing.T, store repo.Store) {
	const rounds, budget = 10, 60
	limited := createAs(t, store.Sessions(), repo.NewSession{Budget: ptr(repo.Cost(budget))}).ID
	free, scope := create(t, store.Sessions()), shared()
	var stored, refused counter
	var versions [workers][]int64
	together(workers, func(worker int) {
		for i := range rounds {
			var turns []repo.Turn
			for _, id := range []repo.ID{free, free, limited} {
				turns = append(turns, repo.Turn{
					SessionID: id,
					Messages:  withIDs(users(1)), Usage: &repo.NewUsage{Cost: 1},
					State: []repo.StateChange{increment(scope, "n", 1), increment(repo.Scope{}, "n", 1), set(scope, fmt.Sprint(worker, "/", i), `1`)},
				})
			}
			added, err := inTxUntilItStays(t.Context(), store, turns...)
			if err != nil {
				_, _ = wantError[*repo.LimitExceededError](t, err, repo.ErrLimit)
				refused.add()
				continue
			}
			stored.add()
			for _, turn := range added {
				versions[worker] = append(versions[worker], turn.Scopes[0].Version)
			}
		}
	})
	if stored.get() != budget || refused.get() != workers*rounds-budget {
		t.Errorf("%d were stored and %d refused, want %d of %d", stored.get(), refused.get(), budget, workers*rounds)
	}
	for id, want := range map[repo.ID]int64{free: 2 * budget, limited: budget} {
		wantCount(t, store.Sessions(), id, int(want))
		wantState(t, store, repo.Scope{SessionID: id}, map[string]string{"n": fmt.Sprint(want)})
		if got := get(t, store.Sessions(), id).Usage.Cost; got != repo.Cost(want) {
			t.Errorf("the cost is %d, want %d", got, want)
		}
	}
	values, version := readState(t, store, scope)
	if len(values) != budget+1 || values["n"] != fmt.Sprint(3*budget) {
		t.Errorf("the scope has %d keys and a sum of %s, want %d and %d", len(values), values["n"], budget+1, 3*budget)
	}
	all := slices.Sorted(slices.Values(slices.Concat(versions[:]...)))
	if len(slices.Compact(all)) != 3*budget || all[len(all)-1] != version {
		t.Errorf("the versions are %v, and the scope's is %d", all, version)
	}
}

// Turns and appends of one session keep their numbers dense, and each caller's order.
func testTurnsWithAppends(t *testing.T, store repo.Store) {
	const rounds = 10
	ids, scope := []repo.ID{create(t, store.Sessions()), create(t, store.Sessions())}, shared()
	together(workers, func(worker int) {
		id, last := ids[worker%2], int64(-1)
		for i := range rounds {
			var messages []repo.Message
			var err error
			switch (worker/2 + i) % 4 {
			case 0:
				messages, err = store.Sessions().Append(t.Context(), id, users(2)...)
			case 1:
				messages, err = store.Sessions().Append(t.Context(), id, withIDs(users(2))...)
			default:
				turn := repo.Turn{Messages: users(2), State: []repo.StateChange{increment(repo.Scope{}, "n", 1)}}
				if i%2 == 0 {
					turn.State = append(turn.State, increment(scope, "n", 1))
				}
				var added repo.AppendedTurn
				added, err = store.Sessions().AppendTurn(t.Context(), inSession(id, turn))
				messages = added.Messages
			}
			if err != nil || len(messages) != 2 || messages[0].Sequence <= last || messages[1].Sequence != messages[0].Sequence+1 {
				t.Errorf("after %d: %+v, %v", last, messages, err)
				return
			}
			last = messages[1].Sequence
		}
	})
	for _, id := range ids {
		wantCount(t, store.Sessions(), id, workers*rounds)
	}
}

// An append at a sequence that shares a group with turns is stored at that sequence, or
// refused.
func testTurnsWithAppendsAt(t *testing.T, store repo.Store) {
	id := create(t, store.Sessions())
	const rounds = 5
	var refused counter
	together(workers, func(worker int) {
		if worker%2 == 0 {
			for range rounds {
				if _, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{
					SessionID: id,
					Messages:  users(1), State: []repo.StateChange{increment(repo.Scope{}, "n", 1)}, // no scope that others have
				}); err != nil {
					t.Error(err)
				}
			}
			return
		}
		for expected := int64(0); ; {
			added, err := appendAt(t.Context(), store.Sessions(), id, expected, users(1)...)
			if err == nil {
				if added[0].Sequence != expected {
					t.Errorf("it was stored at %d, want %d", added[0].Sequence, expected)
				}
				return
			}
			conflict, ok := wantError[*repo.SequenceConflictError](t, err, repo.ErrConflict)
			if !ok {
				return
			}
			refused.add()
			expected = conflict.Next
		}
	})
	if refused.get() == 0 {
		t.Error("none was refused: they did not race")
	}
	wantCount(t, store.Sessions(), id, workers/2*(rounds+1))
}

// A transaction that is rolled back has added no turn.
func testTurnTx(t *testing.T, store repo.Store) {
	id, scope := create(t, store.Sessions()), shared()
	kept, dropped := fullTurn(scope), fullTurn(scope)
	addTurn(t, store, id, kept)
	before := recordedState(t, store, id)
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		s := tx.Sessions()
		if got, err := s.AppendTurn(ctx, inSession(id, kept)); err != nil || !got.Repeated {
			t.Errorf("in the transaction: %+v, %v", got, err)
		}
		for i := range 2 {
			if got, err := s.AppendTurn(ctx, inSession(id, dropped)); err != nil || got.Repeated != (i == 1) || len(got.Messages) != 2 || got.Messages[0].Sequence != 2 {
				t.Errorf("in the transaction: %+v, %v", got, err)
			}
		}
		if _, err := s.AppendTurn(ctx, repo.Turn{SessionID: id, Messages: users(1), State: []repo.StateChange{increment(scope, "n", 1)}}); err != nil {
			t.Error(err)
		}
		created := repo.NewID()
		if got, err := s.AppendTurn(ctx, repo.Turn{SessionID: created, Messages: users(1), Create: &repo.NewSession{}}); err != nil || !got.Created {
			t.Errorf("in the transaction: %+v, %v", got, err)
		}
		wantState(t, tx, scope, map[string]string{"color": `"` + secret + `"`, "n": "7"})
		return errBroken
	})
	if !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	wantSame(t, "session", recordedState(t, store, id), before)
	wantState(t, store, scope, map[string]string{"color": `"` + secret + `"`, "n": "3"})
	if got := addTurn(t, store, id, dropped); got.Repeated {
		t.Error("a turn that was rolled back is repeated")
	}
}
