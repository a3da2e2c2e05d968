package rules

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"time"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/repo"
)

// Turn is a checked turn, as it is stored.
type Turn struct {
	SessionID repo.ID
	// ID is the key by which the turn is recognized when it is added again, with the
	// digest of its contents. Empty: it has none.
	ID     string
	Digest [sha256.Size]byte
	// Given: the caller gave the key, so that an earlier call may have stored the turn.
	Given    bool
	Messages []repo.NewMessage
	// Repeatable: the caller gave an id of a message.
	Repeatable bool
	State      StateChanges
	Usage      *repo.NewUsage
	Expected   *int64
	Fence      int64
	Create     *repo.NewSession
	// Named: the turn names its session by the key of Create.
	Named bool
}

// NamedSessions has the ids of the sessions that turns name by their keys, or those that
// they get.
type NamedSessions map[repo.SessionKey]repo.ID

// KeyOfTurn returns the key by which a turn names its session, or false.
func KeyOfTurn(turn repo.SessionTurn) (repo.SessionKey, bool) {
	if !turn.SessionID.IsZero() || turn.Turn.Create == nil {
		return repo.SessionKey{}, false
	}
	return keyOf(*turn.Turn.Create), true
}

// NormalizeTurn checks a turn and returns it as it is stored.
func NormalizeTurn(sessionID repo.ID, turn repo.Turn, named NamedSessions) (*Turn, error) {
	key, isNamed := KeyOfTurn(repo.SessionTurn{SessionID: sessionID, Turn: turn})
	switch {
	case !isNamed:
	case key.Key == "":
		return nil, invalid("create.key", "is empty, and there is no session's id")
	case !turn.Create.ID.IsZero():
		return nil, invalid("create.id", "is not the session's")
	default:
		sessionID = named[key]
	}
	t := &Turn{SessionID: sessionID, Named: isNamed, ID: turn.ID, Given: true, Expected: clonePointer(turn.Expected), Fence: turn.Fence}
	if len(turn.Messages) == 0 && len(turn.State) == 0 && turn.Usage == nil {
		return nil, invalid("turn", "is empty")
	}
	err := checkText("id", turn.ID, repo.MaxNameBytes)
	if err != nil {
		return nil, err
	}
	if len(turn.Messages) > 0 {
		if t.Messages, t.Repeatable, err = NormalizeMessages(turn.Messages); err != nil {
			return nil, err
		}
	}
	for i, change := range turn.State {
		if !change.Scope.SessionID.IsZero() && change.Scope.SessionID != sessionID {
			return nil, invalid(at("state", i)+".scope", "is of another session")
		}
	}
	for i, condition := range turn.IfScopes {
		if !condition.Scope.SessionID.IsZero() && condition.Scope.SessionID != sessionID {
			return nil, invalid(at("if_scopes", i)+".scope", "is of another session")
		}
	}
	if t.State, err = NormalizeStateChanges(sessionID, turn.State, turn.IfScopes); err != nil {
		return nil, err
	}
	if turn.Usage != nil {
		usage, err := NormalizeUsage(*turn.Usage)
		if err != nil {
			return nil, within("usage.", err)
		}
		t.Usage = &usage
	}
	if t.Expected != nil {
		if err := CheckSequence("expected", *t.Expected); err != nil {
			return nil, err
		}
	}
	if err := checkFence(t.Fence); err != nil {
		return nil, err
	}
	if turn.Create != nil {
		create := *turn.Create
		if create.ID.IsZero() {
			create.ID = sessionID
		}
		if create, err = NormalizeSession(create); err != nil {
			return nil, within("create.", err)
		}
		if create.ID != sessionID {
			return nil, invalid("create.id", "is not the session's")
		}
		t.Create = &create
	}
	if !t.OnlyMessages() {
		t.identify(turn)
	}
	return t, nil
}

// OnlyMessages reports whether the turn is no more than an append.
func (t *Turn) OnlyMessages() bool {
	return t.ID == "" && len(t.State.Scopes) == 0 && t.Usage == nil
}

// identify sets the turn's key and digest. A turn without messages gets a key if it was
// given none, so that an attempt whose answer was lost is found. One with messages is
// found by the first of these.
func (t *Turn) identify(given repo.Turn) {
	if t.ID == "" {
		t.ID = firstID(given)
	}
	if t.ID == "" {
		t.Given = false
		if len(t.Messages) == 0 {
			t.ID = repo.NewID().String()
		}
	}
	if t.ID != "" {
		t.Digest = t.digest(given)
	}
}

// firstID returns the first id among those of the messages and the usage, as text. Empty:
// they have none.
func firstID(given repo.Turn) string {
	for i := range given.Messages {
		if id := given.Messages[i].ID; !id.IsZero() {
			return id.String()
		}
	}
	if given.Usage != nil && !given.Usage.ID.IsZero() {
		return given.Usage.ID.String()
	}
	return ""
}

// digest returns the SHA-256 of what the turn stores. Ids that the caller did not give
// are left out, and so are the conditions, which a caller that tries again may have
// read again. A scope without a name is the session's own.
func (t *Turn) digest(given repo.Turn) (sum [sha256.Size]byte) {
	d := digester{sha256.New()}
	d.number(int64(len(t.Messages)))
	for i, m := range t.Messages {
		d.text(given.Messages[i].ID[:])
		d.text([]byte(m.Role))
		d.text([]byte(m.Content))
		metadata, err := jsonvalue.AppendCanonical(nil, m.Metadata)
		if err != nil { // which NormalizeMessages has excluded
			metadata = m.Metadata
		}
		d.text(metadata)
		d.number(int64(len(m.Payload)), flag(m.Payload == nil))
		d.text(m.Payload)
		d.text([]byte(m.Kind))
		d.text([]byte(m.CallID))
		d.number(m.OccurredAt.UnixMicro())
	}
	d.number(int64(len(t.State.Changes)))
	for _, c := range t.State.Changes {
		d.text([]byte(c.Scope.Name))
		d.text([]byte(c.Key))
		d.text([]byte(c.Op))
		d.text(c.Value)
		d.number(c.By)
	}
	if u := given.Usage; u != nil {
		d.text(u.ID[:])
		d.number(u.InputTokens, u.OutputTokens, int64(u.Cost))
	}
	d.Sum(sum[:0])
	return sum
}

// digester writes each value so that no two sequences of values give the same bytes.
type digester struct{ hash.Hash }

func (d digester) text(text []byte) {
	d.number(int64(len(text)))
	_, _ = d.Write(text)
}

func (d digester) number(numbers ...int64) {
	for _, n := range numbers {
		_, _ = d.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
}

func flag(set bool) int64 {
	if set {
		return 1
	}
	return 0
}

// StoredTurn returns the error of a turn whose key is stored with a digest, or nil if
// it is the same turn.
func (t *Turn) StoredTurn(digest []byte) error {
	if bytes.Equal(digest, t.Digest[:]) {
		return nil
	}
	return &repo.TurnConflictError{SessionID: t.SessionID, ID: t.ID}
}

// TurnView is the stored state that a turn, which is not stored yet, is added to.
type TurnView struct {
	// Fence is the session's.
	Fence Fence
	// Next is the session's next sequence.
	Next int64
	// Known reports whether a message with this id is stored.
	Known func(message repo.ID) bool
	// Usage and Budget are the session's. AddedUsage is what is stored under the id of
	// the turn's usage. Nil: nothing.
	Usage      repo.Usage
	Budget     *repo.Cost
	AddedUsage *repo.Usage
	// Version returns the version of a scope, and Value the value of a key, or nil.
	Version func(scope repo.Scope) int64
	Value   func(scope repo.Scope, key string) *repo.StateValue
	// Now is the time of the change.
	Now time.Time
}

// TurnChanges is what a turn changes, besides adding its messages.
type TurnChanges struct {
	// Scopes are the changed scopes at their new versions, in the order of the changes.
	Scopes []repo.ScopeVersion
	// Values are the new values of keys, which are at their scope's new version.
	Values []StateWrite
	// Usage is the session's after the turn. AddsUsage is false if the turn's usage is
	// stored already.
	Usage     repo.Usage
	AddsUsage bool
}

// StateWrite is a key's new value. Nil: the key is removed.
type StateWrite struct {
	Scope   repo.Scope
	Key     string
	Value   []byte
	Version int64
}

// Add decides what a turn that is not stored yet changes. An error means: nothing.
func (t *Turn) Add(v TurnView) (made TurnChanges, err error) {
	if t.Repeatable {
		for _, m := range t.Messages {
			if v.Known(m.ID) {
				return made, &repo.MessageConflictError{SessionID: t.SessionID, ID: m.ID, Field: "turn"}
			}
		}
	}
	if err := v.Fence.Check(t.Fence); err != nil {
		return made, err
	}
	if t.Expected != nil && *t.Expected != v.Next {
		return made, &repo.SequenceConflictError{SessionID: t.SessionID, Expected: *t.Expected, Next: v.Next}
	}
	if made.Scopes, made.Values, err = t.State.apply(v); err != nil {
		return made, err
	}
	if t.Usage == nil {
		return made, nil
	}
	made.Usage = v.Usage
	if v.AddedUsage != nil {
		return made, UsageConflict(*t.Usage, t.SessionID, *v.AddedUsage)
	}
	made.AddsUsage = true
	made.Usage, err = AddUsageWithin(t.SessionID, v.Usage, v.Budget, *t.Usage)
	return made, err
}

// AddUsageWithin returns the sum of the two. Errors: BudgetExceededError if the cost
// would exceed the budget, unless that is nil; InvalidError (TooMuchUsage).
func AddUsageWithin(sessionID repo.ID, total repo.Usage, budget *repo.Cost, add repo.NewUsage) (repo.Usage, error) {
	// The difference cannot overflow: no cost is negative, or above the budget.
	if budget != nil && add.Cost > *budget-total.Cost {
		return repo.Usage{}, &repo.BudgetExceededError{SessionID: sessionID, Budget: *budget, Cost: total.Cost, Requested: add.Cost}
	}
	return AddUsage(total, add)
}

// apply checks the conditions, and returns the changed scopes and values.
func (s StateChanges) apply(v TurnView) (scopes []repo.ScopeVersion, values []StateWrite, err error) {
	for _, scope := range s.Scopes {
		if err := scope.Conflict(v.Version(scope.Scope)); err != nil {
			return nil, nil, err
		}
	}
	if len(s.Changes) == 0 {
		return nil, nil, nil
	}
	next := make(map[repo.Scope]int64, len(s.Scopes))
	for _, c := range s.Changes {
		value, err := ChangedState(c, v.Value(c.Scope, c.Key))
		if err != nil {
			return nil, nil, err
		}
		if next[c.Scope] == 0 {
			next[c.Scope] = NextStateVersion(v.Version(c.Scope), v.Now)
		}
		values = append(values, StateWrite{Scope: c.Scope, Key: c.Key, Value: value, Version: next[c.Scope]})
	}
	return s.Versions(next), values, nil
}

// ReadsState reports whether what a change does depends on the value that the key has.
func ReadsState(c repo.StateChange) bool {
	return c.Op == repo.StateIncrement || c.IfVersion != nil
}

// NormalizeTurns checks the turns of one call.
func NormalizeTurns(turns []repo.SessionTurn, named NamedSessions) ([]*Turn, error) {
	err := cmp.Or(
		invalidIf(len(turns) == 0, "turns", "are empty"),
		checkEntries("turns", len(turns), repo.MaxTurns),
	)
	if err != nil {
		return nil, err
	}
	normal := make([]*Turn, len(turns))
	type key struct{ session, id repo.ID }
	type turnKey struct {
		session repo.ID
		id      string
	}
	messages, usages, ids := map[key]bool{}, map[key]bool{}, map[turnKey]bool{}
	count, size, state := 0, 0, 0
	for i, turn := range turns {
		t, err := NormalizeTurn(turn.SessionID, turn.Turn, named)
		if err != nil {
			return nil, within(at("turns", i)+".", err)
		}
		twice := t.ID != "" && ids[turnKey{t.SessionID, t.ID}] ||
			t.Usage != nil && usages[key{t.SessionID, t.Usage.ID}]
		ids[turnKey{t.SessionID, t.ID}] = true
		if t.Usage != nil {
			usages[key{t.SessionID, t.Usage.ID}] = true
		}
		for _, m := range t.Messages {
			twice = twice || messages[key{t.SessionID, m.ID}]
			messages[key{t.SessionID, m.ID}] = true
			size += MessageBytes(&m)
		}
		count += len(t.Messages)
		state += t.State.Bytes()
		switch {
		case twice:
			return nil, invalid(at("turns", i), "has an id that another turn of the session has")
		case count > repo.MaxBatchMessages:
			return nil, invalid("turns", "have more than %d messages together", repo.MaxBatchMessages)
		case size > repo.MaxBatchBytes:
			return nil, invalid("turns", "have more than %d bytes of messages together", repo.MaxBatchBytes)
		case state > repo.MaxStateBytes:
			return nil, invalid("turns", "have more than %d bytes of state together", repo.MaxStateBytes)
		}
		normal[i] = t
	}
	return normal, nil
}
