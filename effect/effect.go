package effect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// State says what is known of an effect.
type State string

// The states. StateReserved: its call is under way, or has ended without an answer and Once was not called since.
// StateFree: nothing was sent, or what was sent did not happen; the next call of Once sends it.
const (
	StateReserved State = "reserved"
	StateDone     State = "done"
	StateFailed   State = "failed"
	StateUnknown  State = "unknown"
	StateFree     State = "free"
)

var states = []State{StateReserved, StateDone, StateFailed, StateUnknown, StateFree}

// Effect is what is stored of an effect, without its result.
type Effect struct {
	Key            `json:"-"`
	State          State  `json:"state"`
	IdempotencyKey string `json:"idempotency_key"`    // for the remote: a UUID, the same whenever it is sent
	Attempts       int64  `json:"attempts"`           // how often it was to be sent, from 1
	Sequence       *int64 `json:"sequence,omitempty"` // Policy.Sequence
	Reason         string `json:"reason,omitempty"`   // why it has failed
	Asked          bool   `json:"asked,omitempty"`    // a person was asked about it since it was sent last
	// From is the session from which [Fork] has carried it. Zero: the effect is this session's own.
	From repo.ID `json:"from,omitzero"`
	// FirstSent, by the database's clock, is no later than when it was sent first. It is zero where nothing was ever in
	// doubt. What do gets has no ChangedAt and no Until.
	FirstSent time.Time `json:"first_sent,omitzero"`
	ChangedAt time.Time `json:"-"` // by the database's clock
	Until     time.Time `json:"-"` // when a call that is under way is no longer taken to be; zero: none is
}

// record is what is stored under Key.recordKey.
type record struct {
	Effect
	Arguments string        `json:"arguments"` // their hash
	By        repo.ID       `json:"by"`        // the last sender, or the decision
	Timeout   time.Duration `json:"timeout"`
	Permitted bool          `json:"permitted,omitempty"`

	version int64
}

// decode reads a record. What says something unknown is refused: it might have happened.
func decode(key Key, value repo.StateValue) (r record, err error) {
	if json.Unmarshal(value.Value, &r) != nil || !slices.Contains(states, r.State) {
		return r, &repo.InvalidError{Field: "state", Reason: "has something else than an effect under the key of one"}
	}
	r.Key, r.ChangedAt, r.version = key, value.UpdatedAt, value.Version
	if r.State == StateReserved {
		r.Until, r.FirstSent = r.ChangedAt.Add(r.Timeout+Margin), cmp.Or(r.FirstSent, r.ChangedAt)
	}
	return r, nil
}

func read(ctx context.Context, state repo.State, key Key) (record, error) {
	value, err := state.Get(ctx, key.scope(), key.recordKey())
	if err != nil {
		return record{}, err
	}
	return decode(key, value)
}

const (
	settleTime = 15 * time.Second // for which a call tries to store its end, whatever has become of its context
	writePause = 200 * time.Millisecond
)

// sender makes the changes that write a record: State.Change, with others in a transaction, or with a turn.
type sender func(context.Context, []repo.StateChange, ...repo.ScopeVersion) ([]repo.ScopeVersion, error)

// write writes a record over the version that it has, with a result if there is one, and repeats that if the database
// has prevented it. Errors: errTaken if others have written it meanwhile, and it does not say the same; r is then what
// they have written.
func (r *record) write(ctx context.Context, state repo.State, result json.RawMessage, send sender) error {
	for attempt := 1; ; attempt++ {
		made, err := send(ctx, r.changes(result))
		if err == nil {
			r.version = made[len(made)-1].Version
			return nil
		}
		if r.conflicts(err) {
			var found record
			if found, err = read(ctx, state, r.Key); err == nil {
				same := found.By == r.By && found.State == r.State // the answer was lost
				if *r = found; same {
					return nil
				}
				return errTaken
			}
		}
		if !passes(err) || attempt >= int(settleTime/writePause) {
			return err
		}
		select {
		case <-time.After(writePause):
		case <-ctx.Done():
			return err
		}
	}
}

// conflicts reports whether the record was at another version.
func (r *record) conflicts(err error) bool {
	conflict, is := errors.AsType[*repo.VersionConflictError](err)
	return is && conflict.Name == r.recordKey() && conflict.Scope.SessionID == r.Session
}

func (r *record) changes(result json.RawMessage) []repo.StateChange {
	text, _ := json.Marshal(r) //nolint:errchkjson // ids and times are always JSON
	changes := []repo.StateChange{{Scope: r.scope(), Key: r.recordKey(), Value: text, IfVersion: new(r.version)}}
	if result != nil {
		changes = append(changes, repo.StateChange{Scope: r.scope(), Key: r.resultKey(), Value: result})
	}
	return changes
}

// now returns the database's clock, which only a write tells.
func now(ctx context.Context, state repo.State, key Key) (time.Time, error) {
	look := repo.StateChange{Scope: key.scope(), Key: "effect-clock", Value: json.RawMessage("true")}
	if _, err := state.Change(ctx, []repo.StateChange{look}); err != nil {
		return time.Time{}, err
	}
	value, err := state.Get(ctx, look.Scope, look.Key)
	return value.UpdatedAt, err
}

// overdue makes the record of a call whose time has passed unknown. Errors: Error if it has not.
func (r *record) overdue(ctx context.Context, state repo.State) error {
	if r.State != StateReserved {
		return nil
	}
	if at, err := now(ctx, state, r.Key); err != nil || !at.After(r.Until) {
		return cmp.Or[error](err, &Error{Effect: r.Effect, Left: r.Until.Sub(at)})
	}
	r.State, r.Until = StateUnknown, time.Time{}
	return nil
}
