package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
)

// Answer is what somebody says to one request.
type Answer struct {
	Ref
	Verdict Verdict
	Reason  string // for people, at most MaxReason; optional
}

// Decide answers requests in one transaction, at most MaxAnswers, and returns them as they are then. by is who answers,
// as the caller has made sure. A request is approved with the last vote that its quorum needs, and denied with the
// first one against it. The outcome falls once, together with its audit entry, the waking of its plan and
// Options.Decided.
//
// Answering again in the same way changes nothing, and is no error. Whoever comes too late gets a StatusError, also
// after the expiry by the database's clock, with which the request then expires. Of several answers the others are
// carried out; the errors are joined. All other errors leave everything as it is: InvalidError; NotFoundError;
// ForbiddenError; ForeignError; those of Options and of the store.
func (a *Approvals) Decide(ctx context.Context, by string, answers ...Answer) ([]Request, error) {
	if err := checkAnswers(by, answers); err != nil {
		return nil, err
	}
	for {
		moves := make([]*step, len(answers))
		for i, answer := range answers {
			r, err := load(ctx, a.store.State(), answer.Ref)
			if err == nil {
				err = a.mayDecide(ctx, r.Request, by, answer.Verdict)
			}
			if err != nil {
				return nil, err
			}
			moves[i] = decided(r, by, answer)
		}
		err := a.commit(ctx, by, moves)
		if _, changed := errors.AsType[*repo.VersionConflictError](err); changed {
			continue // somebody else was first: look again
		}
		if err != nil {
			return nil, err
		}
		requests, late := make([]Request, len(moves)), make([]error, len(moves))
		for i, m := range moves {
			requests[i] = m.to
			if m.late {
				late[i] = statusError(m.to)
			}
		}
		return requests, errors.Join(late...)
	}
}

func checkAnswers(by string, answers []Answer) error {
	if len(answers) == 0 || len(answers) > MaxAnswers {
		return &repo.InvalidError{Field: "answers", Reason: fmt.Sprintf("are none, or more than %d", MaxAnswers)}
	}
	err, refs := checkName("by", by, 1), map[Ref]bool{}
	for i, answer := range answers {
		field := fmt.Sprintf("answers[%d]", i)
		switch {
		case answer.Verdict != Approve && answer.Verdict != Deny && answer.Verdict != Withdraw:
			err = cmp.Or[error](err, &repo.InvalidError{Field: field + ".verdict", Reason: "is not approve, deny or withdraw"})
		case refs[answer.Ref]:
			err = cmp.Or[error](err, &repo.InvalidError{Field: field, Reason: "answers a request a second time"})
		}
		refs[answer.Ref] = true
		err = cmp.Or(err, checkText(field+".reason", answer.Reason, MaxReason))
	}
	return err
}

// mayDecide returns a ForbiddenError for whoever may not.
func (a *Approvals) mayDecide(ctx context.Context, r Request, by string, verdict Verdict) error {
	allowed, err := slices.Contains(r.Deciders, by), error(nil)
	switch {
	case verdict == Withdraw:
		allowed = by == r.By
	case by == r.By && !r.SelfApproval:
		allowed = false
	case !allowed && a.options.MayDecide != nil:
		allowed, err = a.options.MayDecide(ctx, r, by)
	}
	if err == nil && !allowed {
		return &ForbiddenError{r.Ref, by}
	}
	return err
}

// step is what becomes of a request.
type step struct {
	was  *record
	to   Request
	late bool // whoever wants it is too late
}

// agrees has the statuses of a request with which somebody who has said so agrees.
var agrees = map[Verdict][]Status{Approve: {Open, Approved, Used}, Deny: {Denied}, Withdraw: {Withdrawn}}

// decided returns what an answer makes of a request.
func decided(r *record, by string, answer Answer) *step {
	m := &step{was: r, to: r.Request}
	said := slices.ContainsFunc(r.Votes, func(v Vote) bool { return v.By == by && v.Verdict == answer.Verdict })
	if r.Status != Open || said {
		m.late = !said || !slices.Contains(agrees[answer.Verdict], r.Status)
		return m
	}
	// Somebody who has approved may deny while others still have to approve.
	m.to.Votes = slices.DeleteFunc(slices.Clone(r.Votes), func(v Vote) bool { return v.By == by })
	m.to.Votes = append(m.to.Votes, Vote{by, answer.Verdict, answer.Reason})
	switch {
	case answer.Verdict == Deny:
		m.to.Status = Denied
	case answer.Verdict == Withdraw:
		m.to.Status = Withdrawn
	case len(m.to.Votes) >= r.Quorum:
		m.to.Status = Approved
	}
	return m
}

func (m *step) moves() bool {
	return m.to.Status != m.was.Status || len(m.to.Votes) != len(m.was.Votes)
}

// commit makes the moves in one transaction, and lets expire what has expired by the database's clock.
func (a *Approvals) commit(ctx context.Context, by string, all []*step) error {
	var moves []*step
	for _, m := range all {
		if m.moves() {
			moves = append(moves, m)
		}
	}
	if len(moves) == 0 {
		return nil
	}
	// In the same order in all transactions: plans are locked one by one.
	slices.SortFunc(moves, func(x, y *step) int { return x.was.PlanID.Compare(y.was.PlanID) })
	wanted := make([]step, len(moves))
	for i, m := range moves {
		wanted[i] = *m
	}
	return a.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		for i, m := range moves {
			*m = wanted[i] // as it was before an attempt that is made again
		}
		return a.carryOut(ctx, tx, by, moves)
	})
}

// carryOut makes the moves with all that goes with them.
func (a *Approvals) carryOut(ctx context.Context, tx repo.Repositories, by string, moves []*step) error {
	if err := write(ctx, tx.State(), moves); err != nil {
		return err
	}
	entries := make([]repo.AuditEntry, len(moves))
	for i, m := range moves {
		entries[i] = a.entry(m.to, by)
		if m.to.Status == Open || m.to.Status == Used {
			continue
		}
		if err := wake(ctx, tx, m.to, by); err != nil {
			return err
		}
		if a.options.Decided != nil {
			if err := a.options.Decided(ctx, tx, m.to); err != nil {
				return err
			}
		}
	}
	return tx.Audit().Record(ctx, entries...)
}

// write makes the moves, if nobody else was first. Only what was written tells the database's time: so what has expired
// by then is written again.
func write(ctx context.Context, state repo.State, moves []*step) error {
	var changes []repo.StateChange
	for _, m := range moves {
		changes = append(changes, m.was.changes(m.to.Status, m.to.Votes, true)...)
	}
	if _, err := state.Change(ctx, changes); err != nil {
		return err
	}
	first := moves[0].was.Ref
	now, err := state.Get(ctx, repo.Scope{SessionID: first.SessionID}, keyOf(first.ID))
	if err != nil {
		return err
	}
	changes = nil
	for _, m := range moves {
		m.to.UpdatedAt = now.UpdatedAt
		if expired := expires(m.was.Request, now.UpdatedAt); expired && m.to.Status != Expired {
			m.to.Status, m.to.Votes, m.late = Expired, m.was.Votes, true
			changes = append(changes, m.was.changes(Expired, m.was.Votes, false)...)
		}
	}
	if len(changes) > 0 {
		_, err = state.Change(ctx, changes)
	}
	return err
}

func expires(r Request, now time.Time) bool { return !now.Before(r.Until) }

// entry tells what has become of a request.
func (a *Approvals) entry(r Request, by string) repo.AuditEntry {
	actor := ""
	switch r.Status {
	case Expired:
		by = ""
	case Used:
		actor, by = by, ""
	}
	details := encode(struct {
		ID     string `json:"approval"`
		Kind   string `json:"kind"`
		Hash   string `json:"arguments_sha256"`
		Status Status `json:"status"`
	}{r.ID, r.Kind, r.ArgumentsHash, r.Status})
	return repo.AuditEntry{
		Type: events.UserApproval, Namespace: a.namespace, Actor: actor, User: by, SessionID: r.SessionID,
		PlanID: r.PlanID, Details: details,
	}
}
