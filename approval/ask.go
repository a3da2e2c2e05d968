package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/repo"
)

// Ask asks in the caller's transaction, and makes the request's plan wait: one that is processing is snoozed until
// Until, which ends the claim; one that is complete waits for its next phase; one that is queued must not be due
// earlier. Asking again with the same id and the same values, but for Until, returns the request as it is, and makes
// the plan wait again if it is still open: a worker whose plan is claimed again just asks, and goes on if it is not
// Open.
//
// Errors: InvalidError, also if Until has passed, by the database's clock; NotFoundError of the session or the plan;
// ExistsError of the kind "approval" if the id is another request's; ForeignError; RefusedError of the plan;
// repo.FencedError; repo.TransitionConflictError. After an error the transaction has to be rolled back.
func (a *Approvals) Ask(ctx context.Context, tx repo.Repositories, request NewRequest) (Request, error) {
	changes, err := a.inTurn(&request)
	if err != nil {
		return Request{}, err
	}
	session, err := tx.Sessions().Get(ctx, request.SessionID)
	if err == nil && session.Namespace != a.namespace {
		err = &repo.NotFoundError{Kind: "session", ID: request.SessionID}
	}
	if err != nil {
		return Request{}, err
	}
	changes[0].Scope.SessionID = request.SessionID
	_, err = tx.State().Change(ctx, changes)
	isNew := err == nil
	if _, exists := errors.AsType[*repo.VersionConflictError](err); err != nil && !exists {
		return Request{}, err
	}
	for {
		r, err := load(ctx, tx.State(), request.Ref)
		if err != nil {
			return Request{}, err
		}
		if !isNew {
			request.Until = r.Until
			if r.sum() != request.request().sum() {
				return Request{}, &repo.ExistsError{Kind: "approval", SessionID: r.SessionID, Name: r.ID, Field: "request"}
			}
			if r.Status != Open || r.PlanID.IsZero() {
				return r.Request, nil
			}
			err = touch(ctx, tx.State(), r)
			if _, changed := errors.AsType[*repo.VersionConflictError](err); changed {
				continue // somebody decides
			}
			if err != nil {
				return Request{}, err
			}
		}
		switch expired := expires(r.Request, r.UpdatedAt); {
		case expired && isNew:
			return Request{}, &repo.InvalidError{Field: "until", Reason: "has passed"}
		case expired:
			ends := &step{was: r, to: r.Request}
			ends.to.Status = Expired
			err = a.carryOut(ctx, tx, "", []*step{ends})
			return ends.to, err
		}
		return r.Request, block(ctx, tx, r.Request, request.Fence)
	}
}

// touch writes an open request as it is, so that it is locked, and has the database's time.
func touch(ctx context.Context, state repo.State, r *record) error {
	same := repo.StateChange{
		Scope: repo.Scope{SessionID: r.SessionID}, Key: keyOf(r.ID), Value: r.encode(), IfVersion: &r.version,
	}
	if _, err := state.Change(ctx, []repo.StateChange{same}); err != nil {
		return err
	}
	stored, err := state.Get(ctx, same.Scope, same.Key)
	r.version, r.UpdatedAt = stored.Version, stored.UpdatedAt
	return err
}

// request returns the open request of one that was checked.
func (r *NewRequest) request() Request {
	return Request{
		r.Ref, r.Kind, r.Subject, hash(r.Arguments), r.Text, r.By, r.Deciders, r.Quorum, r.Until, r.SelfApproval, r.PlanID,
		Open, nil,
		time.Time{},
	}
}

// InTurn returns the changes that ask, for Turn.State of a turn of the session, with an id. What it does not do: PlanID
// is woken, but not made to wait, and Until is not compared with the clock. A turn that asks with an id that was asked
// already is refused with a repo.VersionConflictError. Errors: InvalidError.
func (a *Approvals) InTurn(request NewRequest) ([]repo.StateChange, error) {
	return a.inTurn(&request)
}

func (a *Approvals) inTurn(request *NewRequest) ([]repo.StateChange, error) {
	if err := a.check(request); err != nil {
		return nil, err
	}
	r := request.request()
	doc, entry := r.encode(), entryOf(r.Until, r.Ref)
	changes := []repo.StateChange{
		{Key: keyOf(request.ID), Value: doc, IfVersion: new(int64)},
		{Scope: ledger(request.SessionID), Key: entry, Value: encode(seal{hash(doc), r.Deciders})},
	}
	for _, name := range r.Deciders {
		scope := repo.Scope{Name: ScopeOf(name)}
		changes = append(changes, repo.StateChange{Scope: scope, Key: entry, Value: encode(r.sum())})
	}
	return changes, nil
}

func (a *Approvals) check(r *NewRequest) error {
	r.Until, r.Quorum = r.Until.UTC().Truncate(time.Microsecond), max(r.Quorum, 1)
	err := cmp.Or(
		checkName("id", r.ID, 1), checkName("kind", r.Kind, 1), checkName("subject", r.Subject, 0),
		checkName("by", r.By, 1), checkText("text", r.Text, MaxText),
	)
	r.Deciders = slices.Sorted(slices.Values(r.Deciders))
	able := len(r.Deciders)
	for _, name := range r.Deciders {
		err = cmp.Or(err, checkName("deciders", name, 1))
		if name == r.By && !r.SelfApproval {
			able--
		}
	}
	invalid := func(field, reason string, args ...any) error {
		return &repo.InvalidError{Field: field, Reason: fmt.Sprintf(reason, args...)}
	}
	switch {
	case err != nil:
		return err
	case r.SessionID.IsZero():
		return invalid("session_id", "is zero")
	case len(r.Deciders) == 0:
		return invalid("deciders", "are empty: name who may decide")
	case len(r.Deciders) > MaxDeciders:
		return invalid("deciders", "are more than %d", MaxDeciders)
	case len(slices.Compact(slices.Clone(r.Deciders))) != len(r.Deciders):
		return invalid("deciders", "have a name twice")
	case r.Quorum > MaxQuorum:
		return invalid("quorum", "is above %d", MaxQuorum)
	case a.options.MayDecide == nil && r.Quorum > able:
		return invalid("quorum", "is more than the deciders who may approve")
	case r.Until.Year() < 2000 || r.Until.Year() > 9999:
		return invalid("until", "is not in the years 2000 to 9999")
	}
	return nil
}

// checkName checks a name of a number of bytes at least.
func checkName(field, name string, least int) error {
	if len(name) < least {
		return &repo.InvalidError{Field: field, Reason: "is empty"}
	}
	return checkText(field, name, repo.MaxNameBytes)
}

func checkText(field, text string, most int) error {
	switch {
	case len(text) > most:
		return &repo.InvalidError{Field: field, Reason: fmt.Sprintf("has more than %d bytes", most)}
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return &repo.InvalidError{Field: field, Reason: "is not UTF-8, or has NUL"}
	}
	return nil
}
