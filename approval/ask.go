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
// earlier, or, with the Fence of the claim that another request has ended, not yet. Asking again with the same id and
// the same values (Until may differ) returns the stored request, and makes the plan wait again if it is still open.
// So a worker that claims the plan again asks again, and continues if the request is no longer Open.
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
	if err = moved(err); err != nil && !errors.Is(err, errMoved) {
		return Request{}, err
	}
	for {
		r, err := load(ctx, tx.State(), request.Ref)
		if err != nil {
			return Request{}, err
		}
		m := r.step(r.Status, r.Votes)
		if isNew {
			if expires(r.Request, r.UpdatedAt) {
				return Request{}, &repo.InvalidError{Field: "until", Reason: "has passed"}
			}
			return m.to, a.block(ctx, tx, m.to, request.Fence)
		}
		request.Until = r.Until
		if r.Sum() != request.request().Sum() {
			return Request{}, &repo.ExistsError{Kind: "approval", SessionID: r.SessionID, Name: r.ID, Field: "request"}
		}
		if r.Status != Open {
			return m.to, nil
		}
		// It is written as it is, so that it is locked, and expires if its time has passed.
		if err = a.carryOut(ctx, tx, "", []*step{m}); errors.Is(err, errMoved) {
			continue
		}
		if err == nil && m.to.Status == Open {
			err = a.block(ctx, tx, m.to, request.Fence)
		}
		return m.to, err
	}
}

// request returns the open request of a checked NewRequest.
func (r *NewRequest) request() Request {
	return Request{
		Ref: r.Ref, Kind: r.Kind, Subject: r.Subject, ArgumentsHash: hash(r.Arguments), Text: r.Text, By: r.By, Status: Open,
		Deciders: r.Deciders, Quorum: r.Quorum, Until: r.Until, SelfApproval: r.SelfApproval, PlanID: r.PlanID,
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
	doc, entry := encode(r), entryOf(r.Until, r.Ref)
	changes := []repo.StateChange{
		{Key: keyOf(request.ID), Value: doc, IfVersion: new(int64)},
		{Scope: ledger(request.SessionID), Key: entry, Value: encode(seal{hash(doc), r.Deciders})},
	}
	for _, name := range r.Deciders {
		scope := repo.Scope{Name: ScopeOf(name)}
		changes = append(changes, repo.StateChange{Scope: scope, Key: entry, Value: encode(r.Sum())})
	}
	return changes, nil
}

func (a *Approvals) check(r *NewRequest) error {
	r.Until, r.Quorum = r.Until.UTC().Truncate(time.Microsecond), cmp.Or(r.Quorum, 1)
	err := cmp.Or(
		checkText("id", r.ID, 1, repo.MaxNameBytes), checkText("kind", r.Kind, 1, repo.MaxNameBytes),
		checkText("subject", r.Subject, 0, repo.MaxNameBytes), checkText("by", r.By, 1, repo.MaxNameBytes),
		checkText("text", r.Text, 0, MaxText),
	)
	r.Deciders = slices.Sorted(slices.Values(r.Deciders))
	able := len(r.Deciders)
	for _, name := range r.Deciders {
		err = cmp.Or(err, checkText("deciders", name, 1, repo.MaxNameBytes))
		if name == r.By && !r.SelfApproval {
			able--
		}
	}
	var field, reason string
	switch {
	case err != nil:
		return err
	case r.SessionID.IsZero():
		field, reason = "session_id", "is zero"
	case len(r.Deciders) == 0:
		field, reason = "deciders", "are empty: name the people who may decide"
	case len(r.Deciders) > MaxDeciders:
		field, reason = "deciders", fmt.Sprintf("are more than %d", MaxDeciders)
	case len(slices.Compact(slices.Clone(r.Deciders))) != len(r.Deciders):
		field, reason = "deciders", "have a name twice"
	case r.Quorum < 1 || r.Quorum > MaxQuorum:
		field, reason = "quorum", fmt.Sprintf("is not from 0 to %d", MaxQuorum)
	case a.options.MayDecide == nil && r.Quorum > able:
		field, reason = "quorum", "is more than the deciders that may approve"
	case r.Until.Year() < 2000 || r.Until.Year() > 9999:
		field, reason = "until", "is not in the years 2000 to 9999"
	default:
		return nil
	}
	return &repo.InvalidError{Field: field, Reason: reason}
}

// checkText checks a text of a number of bytes.
func checkText(field, text string, least, most int) error {
	var reason string
	switch {
	case len(text) < least:
		reason = "is empty"
	case len(text) > most:
		reason = fmt.Sprintf("has more than %d bytes", most)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		reason = "is not UTF-8, or has NUL"
	default:
		return nil
	}
	return &repo.InvalidError{Field: field, Reason: reason}
}
