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
	// Unfenced: it needs no fence, also of a session that takes only fenced turns.
	Unfenced bool
}

// UsageTurn returns the turn that Sessions.AddUsage is: of nothing but usage, which has an id.
func UsageTurn(sessionID repo.ID, add repo.NewUsage) (*Turn, error) {
	add, err := normalizeUsage(add)
	return &Turn{SessionID: sessionID, Usage: &add, Unfenced: true}, err
}

// KeyOfTurn returns the key by which a turn names its session, or false.
func KeyOfTurn(view string, turn repo.Turn) (repo.SessionKey, bool) {
	if !turn.SessionID.IsZero() || turn.Create == nil {
		return repo.SessionKey{}, false
	}
	return keyOf(view, *turn.Create), true
}

// NormalizeTurn checks a turn and returns it as it is stored. named is the id of the session that the turn names by its
// key, or the one that this gets.
func NormalizeTurn(view string, turn repo.Turn, named repo.ID) (*Turn, error) {
	key, isNamed := KeyOfTurn(view, turn)
	t := &Turn{
		SessionID: turn.SessionID, Named: isNamed, ID: turn.ID, Given: true, Existing: turn.Existing, Fence: turn.Fence,
		Expected: ClonePointer(turn.Expected), After: ClonePointer(turn.After), Head: ClonePointer(turn.Head),
	}
	if isNamed {
		t.SessionID = named
	}
	adds := len(turn.Messages) > 0 || len(turn.State) > 0 || turn.Usage != nil || turn.After != nil || turn.Action != "" ||
		turn.Open != nil
	err := cmp.Or(
		invalidIf(isNamed && key.Key == "", "create.key", "is empty, and there is no session's id"),
		invalidIf(isNamed && !turn.Create.ID.IsZero(), "create.id", "is not the session's"),
		invalidIf(!adds, "turn", "is empty"),
		checkText("id", turn.ID, repo.MaxNameBytes),
		invalidIf(turn.Existing && turn.ID == "", "existing", "needs an id of the turn"),
		t.normalizeMessages(turn.Messages),
		t.normalizeState(turn),
		t.normalizeUsage(turn.Usage),
		t.normalizeWork(view, turn),
		t.checkPlaces(),
		t.normalizeCreate(view, turn.Create),
	)
	if err != nil {
		return nil, err
	}
	if !t.OnlyMessages() {
		t.identify(turn)
	}
	t.inView(view)
	return t, nil
}

func (t *Turn) normalizeMessages(messages []repo.NewMessage) (err error) {
	if len(messages) > 0 {
		t.Messages, t.Repeatable, err = NormalizeMessages(messages)
	}
	return err
}

func (t *Turn) normalizeState(turn repo.Turn) (err error) {
	check := func(field string, i int, scope repo.Scope) error {
		return invalidIf(!scope.SessionID.IsZero() && scope.SessionID != t.SessionID, at(field, i)+".scope",
			"is of another session")
	}
	for i, change := range turn.State {
		err = cmp.Or(err, check("state", i, change.Scope))
	}
	for i, condition := range turn.IfScopes {
		err = cmp.Or(err, check("if_scopes", i, condition.Scope))
	}
	if err == nil {
		t.State, err = NormalizeStateChanges(t.SessionID, turn.State, turn.IfScopes)
	}
	return err
}

func (t *Turn) normalizeUsage(given *repo.NewUsage) error {
	if given == nil {
		return nil
	}
	usage, err := normalizeUsage(*given)
	t.Usage = &usage
	return within("usage.", err)
}

// checkPlaces checks what the turn says of where it is added, and under which fence.
func (t *Turn) checkPlaces() error {
	below := func(place *int64, least int64) bool { return place != nil && *place < least }
	return cmp.Or(
		invalidIf(below(t.Expected, 0), "expected", "is negative"),
		invalidIf(below(t.After, -1), "after", "is below -1"),
		invalidIf(below(t.Head, -1), "head", "is below -1"),
		checkFence(t.Fence),
	)
}

func (t *Turn) normalizeCreate(view string, given *repo.NewSession) error {
	if given == nil {
		return nil
	}
	create := *given
	if create.ID.IsZero() {
		create.ID = t.SessionID
	}
	create, err := NormalizeSession(view, create)
	t.Create = &create
	return cmp.Or(within("create.", err), invalidIf(create.ID != t.SessionID, "create.id", "is not the session's"))
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

// NewPlan returns the plan that the turn makes. It shares no memory with the action. Errors: errors
// of NewPlan; RefusedError.
func (t *Turn) NewPlan(ctx context.Context, action repo.Action) (repo.Plan, error) {
	if !action.Archived && !action.Reusable {
		return repo.Plan{}, &repo.RefusedError{
			Kind: "action", Name: action.Name.String(),
			Reason: "is not reusable, as a turn's must be",
		}
	}
	plan, err := NewPlan(ctx, t.PlanID, *t.Use, action)
	for i := range plan.Arguments {
		plan.Arguments[i].Value = bytes.Clone(plan.Arguments[i].Value)
	}
	return plan, err
}

// OnlyMessages reports whether the turn is no more than an append.
func (t *Turn) OnlyMessages() bool {
	return t.ID == "" && len(t.State.Scopes) == 0 && t.Usage == nil && t.After == nil && t.Head == nil && t.Use == nil &&
		t.Open == nil
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

// firstID returns the first id of the messages and the usage, as text. Empty: they have
// none.
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
// are left out, and so are the conditions and bounds, which a caller that tries again may have
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
		// which may have been computed again
		use.SessionID, use.Actor, use.NotBefore, use.Trace = repo.ID{}, "", time.Time{}, ""
		text, _ := json.Marshal(use) //nolint:errchkjson // it was normalized
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

// ReadsState reports whether what a change does depends on the value that the key has.
func ReadsState(c repo.StateChange) bool {
	return c.Op == repo.StateIncrement || c.IfVersion != nil
}
