package effect

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Failed wraps an error of do: the effect has not happened, and never will, as with a card that the provider refused.
// The text of err is stored (repo.ReasonOf), as Effect.Reason.
func Failed(err error) error { return ended(err, StateFailed) }

// NotSent wraps an error of do: nothing was sent that could have an effect. The next call of [Once] sends it, unless it
// may have happened when it was sent before.
func NotSent(err error) error { return ended(err, StateFree) }

func ended(err error, state State) error {
	if err == nil {
		return nil
	}
	return &ending{err, state}
}

type ending struct {
	error

	state State
}

func (e *ending) Unwrap() error { return e.error }

// stateAfter returns what is known after do has returned an error, or none. doubt: it may have happened before.
func stateAfter(failed error, doubt bool) State {
	if failed == nil {
		return StateDone
	}
	if end, marked := errors.AsType[*ending](failed); marked && (end.state != StateFree || !doubt) {
		return end.state
	}
	return StateUnknown
}

// Error reports why there is no result of an effect, or what else is amiss. Effect.State says which:
//
//   - StateReserved: another call of Once is sending it, or was: nothing is known of its end before Effect.Until.
//   - StateUnknown: it may have happened or not. Err is what do, Reconcile or the store has returned, if they have, or
//     that an answer to Resolve was about another sending.
//   - StateFailed: it has failed for good, for Effect.Reason.
//   - StateDone: it happened, and Err is what is amiss: an InvalidError of the field "result" if that cannot be stored;
//     the store's error if Policy.Turn was refused; otherwise another caller has stored it meanwhile.
//   - StateFree, after a late answer or a Resolve: another caller has decided that it did not happen.
//
// It matches repo.ErrConflict, and wraps Err. Its text has nothing of what do and Reconcile have returned.
type Error struct {
	Effect Effect        // as it is stored
	Left   time.Duration // until Effect.Until, when the database was asked: see repo.Snooze
	Err    error
}

func (e *Error) Error() string {
	says := map[State]string{
		StateReserved: "is under way until " + e.Effect.Until.Format(time.RFC3339),
		StateFailed:   "has failed for good",
		StateUnknown:  "may have happened or not",
		StateFree:     "is not to have happened",
		StateDone:     fmt.Sprintf("happened: %v", e.Err),
	}[e.Effect.State]
	return fmt.Sprintf("session %s: effect %q %s", e.Effect.Session, e.Effect.Call, says)
}
func (e *Error) Is(target error) bool { return target == repo.ErrConflict }
func (e *Error) Unwrap() error        { return e.Err }

var (
	errTaken   = errors.New("the effect has changed meanwhile")
	errDecided = errors.New("another caller has decided that meanwhile")
	errGone    = &repo.InvalidError{Field: "result", Reason: "is not stored"}
	errLate    = errors.New("the context or the time of the call ended before it was sent")
)

// passes reports whether an operation of the store may succeed when it is repeated.
func passes(err error) bool {
	return errors.Is(err, repo.ErrUnavailable) || errors.Is(err, repo.ErrContention) ||
		errors.Is(err, repo.ErrUnknownOutcome)
}
