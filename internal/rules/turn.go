package rules

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
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
	Given bool
	// Existing: a stored turn with the key is this one, whatever its contents.
	Existing bool
	Messages []repo.NewMessage
	// Repeatable: the caller gave an id of a message.
	Repeatable bool
	State      StateChanges
	Usage      *repo.NewUsage
	// Use, if set, makes the plan PlanID of Action.
	Use    *repo.UseAction
	Action repo.ActionName
	PlanID repo.ID
	// Open is the stream that is opened. Nil: none.
	Open     *repo.NewStream
	Expected *int64
	// After and Head: see repo.Turn.
	After, Head *int64
	Fence       int64
	Create      *repo.NewSession
	// Named: the turn names its session by the key of Create.
	Named bool
}

// KeyOfTurn returns the key by which a turn names its session, or false.
func KeyOfTurn(view string, turn repo.Turn) (repo.SessionKey, bool) {
	if !turn.SessionID.IsZero() || turn.Create == nil {
		return repo.SessionKey{}, false
	}
	return keyOf(view, *turn.Create), true
}

// NormalizeTurn checks a turn and returns it as it is stored. named is the id of the session that the turn names by its key, or the
// one that this gets.
func NormalizeTurn(view string, turn repo.Turn, named repo.ID) (*Turn, error) {
	sessionID := turn.SessionID
	key, isNamed := KeyOfTurn(view, turn)
	switch {
	case !isNamed:
	case key.Key == "":
		return nil, invalid("create.key", "is empty, and there is no session's id")
	case !turn.Create.ID.IsZero():
		return nil, invalid("create.id", "is not the session's")
	default:
		sessionID = named
	}
	t := &Turn{SessionID: sessionID, Named: isNamed, ID: turn.ID, Given: true, Existing: turn.Existing, Expected: clonePointer(turn.Expected), Fence: turn.Fence}
	t.After, t.Head = clonePointer(turn.After), clonePointer(turn.Head)
	if len(turn.Messages) == 0 && len(turn.State) == 0 && turn.Usage == nil && turn.After == nil && turn.Action == "" && turn.Open == nil {
		return nil, invalid("turn", "is empty")
	}
	err := cmp.Or(
		checkText("id", turn.ID, repo.MaxNameBytes),
		invalidIf(turn.Existing && turn.ID == "", "existing", "needs an id of the turn"),
	)
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
	if err := t.normalizeWork(view, turn); err != nil {
		return nil, err
	}
	if t.Expected != nil {
		if err := CheckSequence("expected", *t.Expected); err != nil {
			return nil, err
		}
	}
	for field, place := range map[string]*int64{"after": t.After, "head": t.Head} {
		if place != nil && *place < -1 {
			return nil, invalid(field, "is below -1")
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
		if create, err = NormalizeSession(view, create); err != nil {
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
	t.inView(view)
	return t, nil
}

// normalizeWork checks the plan and the stream.
func (t *Turn) normalizeWork(view string, turn repo.Turn) error {
	use := turn.Use
	err := cmp.Or(
		invalidIf(use.Key != "", "use.key", "is set, but the turn's id is the plan's key"),
		invalidIf(use.Existing != "", "use.existing", "is set"),
		invalidIf(!use.ParentID.IsZero(), "use.parent_id", "is set"),
		invalidIf(!use.SessionID.IsZero() && use.SessionID != t.SessionID, "use.session_id", "is not the turn's"),
	)
	if err != nil {
		return err
	}
	if turn.Action != "" {
		name, use, err := NormalizeUse(view, turn.Action, use)
		if err != nil {
			return within("use.", err)
		}
		use.SessionID = t.SessionID
		t.Action, t.Use, t.PlanID = name, &use, repo.NewID()
	}
	if turn.Open == nil {
		return nil
	}
	open, err := NormalizeStream(*turn.Open)
	switch {
	case err != nil:
		return within("open.", err)
	case !open.Session.IsZero() && open.Session != t.SessionID:
		return invalid("open.session", "is not the turn's")
	}
	open.Session = t.SessionID
	t.Open = &open
	return nil
}

// NewPlan returns the plan that the turn makes. It shares no memory with the action. Errors: those of
// NewPlan; RefusedError.
func (t *Turn) NewPlan(ctx context.Context, action repo.Action) (repo.Plan, error) {
	if !action.Archived && !action.Reusable {
		return repo.Plan{}, &repo.RefusedError{Kind: "action", Name: action.Name.String(), Reason: "is not reusable, as that of a turn must be"}
	}
	plan, err := NewPlan(ctx, t.PlanID, *t.Use, action)
	for i := range plan.Arguments {
		plan.Arguments[i].Value = bytes.Clone(plan.Arguments[i].Value)
	}
	return plan, err
}

// OnlyMessages reports whether the turn is no more than an append.
func (t *Turn) OnlyMessages() bool {
	return t.ID == "" && len(t.State.Scopes) == 0 && t.Usage == nil && t.After == nil && t.Head == nil && t.Use == nil && t.Open == nil
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
	if t.After != nil {
		d.text([]byte("after"))
		d.number(*t.After)
	}
	if t.Use != nil {
		use := *t.Use
		use.SessionID, use.Actor, use.NotBefore, use.Trace = repo.ID{}, "", time.Time{}, "" // which may have been computed again
		text, _ := json.Marshal(use)                                                        //nolint:errchkjson // it was normalized
		d.text([]byte(t.Action.String()))
		d.text(text)
	}
	if t.Open != nil {
		d.text([]byte("open"))
		d.text([]byte(t.Open.Key))
		d.number(flag(t.Open.Restart))
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

// CheckTurnID checks the id by which a turn is asked for.
func CheckTurnID(id string) error {
	return cmp.Or(invalidIf(id == "", "id", "is empty"), checkText("id", id, repo.MaxNameBytes))
}

// StoredTurn returns the error of a turn whose key is stored with a digest, or nil if
// it is the same turn.
func (t *Turn) StoredTurn(digest []byte) error {
	if t.Existing || bytes.Equal(digest, t.Digest[:]) {
		return nil
	}
	return &repo.ExistsError{Kind: "turn", SessionID: t.SessionID, Name: t.ID}
}

// TurnView is the stored state that a turn, which is not stored yet, is added to.
type TurnView struct {
	// Fence is the session's.
	Fence Fence
	// Next is the session's next sequence.
	Next int64
	// Head is the sequence of the transcript's last message, or -1. Has reports whether a message with a sequence is in the
	// session, on any branch.
	Head int64
	Has  func(sequence int64) bool
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
				return made, &repo.ExistsError{Kind: "message", SessionID: t.SessionID, ID: m.ID, Field: "turn"}
			}
		}
	}
	if err := v.Fence.Check(t.Fence); err != nil {
		return made, err
	}
	if t.Expected != nil && *t.Expected != v.Next {
		return made, &repo.SequenceConflictError{Kind: "session", ID: t.SessionID, Expected: *t.Expected, Next: v.Next}
	}
	if t.Head != nil && *t.Head != v.Head {
		return made, &repo.SequenceConflictError{Kind: "head", ID: t.SessionID, Expected: *t.Head, Next: v.Head}
	}
	if t.After != nil && *t.After >= 0 && !v.Has(*t.After) {
		return made, invalid("after", "is not a message of the session")
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

// Head returns the sequence of the transcript's last message, or -1. follows is what the next message will follow, nil for the one
// before it, which has the sequence next.
func Head(follows *int64, next int64) int64 {
	if follows != nil {
		return *follows
	}
	return next - 1
}

// Follows returns what the message with the sequence next follows, nil for the one before it, if its turn names a message (after)
// or not. follows is what it would follow otherwise.
func Follows(after, follows *int64, next int64) *int64 {
	switch {
	case after == nil:
		return follows
	case *after == next-1:
		return nil
	}
	return after
}

// AddUsageWithin returns the sum of the two. Errors: LimitExceededError if the cost
// would exceed the budget, unless that is nil; InvalidError (TooMuchUsage).
func AddUsageWithin(sessionID repo.ID, total repo.Usage, budget *repo.Cost, add repo.NewUsage) (repo.Usage, error) {
	// The difference cannot overflow: no cost is negative, or above the budget.
	if budget != nil && add.Cost > *budget-total.Cost {
		return repo.Usage{}, &repo.LimitExceededError{Kind: "budget", ID: sessionID, Limit: int64(*budget), Current: int64(total.Cost), Requested: int64(add.Cost)}
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
