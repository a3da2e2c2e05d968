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

// Answer is a person's answer to one request.
type Answer struct {
	Ref
	Verdict Verdict
	Reason  string // for people, at most MaxReason; optional
	// Sum is Request.Sum of what was shown: if the request is another one by now, which was asked under the same id in a
	// session that was restored, the error is a StatusError, and nothing is decided. Empty: whatever is asked.
	Sum string
}

// Decide answers requests in one transaction, at most MaxAnswers, and returns them as they are then. by names the
// person who answers; the caller has authenticated it. A request is approved with the last vote that its quorum needs,
// and denied with the first one against it. The outcome is stored once, together with its audit entry, the waking of
// its plan and Options.Decided.
//
// Repeating an answer changes nothing and succeeds. An answer that comes too late gets a StatusError, and the other
// answers are still carried out; the errors are joined. An answer after the expiry, by the database's clock, also
// makes the request expire. All other errors leave everything unchanged: InvalidError; NotFoundError;
// ForbiddenError; ForeignError; errors of Options and of the store.
func (a *Approvals) Decide(ctx context.Context, by string, answers ...Answer) ([]Request, error) {
	if err := checkAnswers(by, answers); err != nil {
		return nil, err
	}
	for {
		moves := make([]*step, len(answers))
		for i, answer := range answers {
			r, err := load(ctx, a.store.State(), answer.Ref)
			if err == nil {
				err = a.mayDecide(ctx, r.Request, by, answer)
			}
			if err != nil {
				return nil, err
			}
			moves[i] = decided(r, by, answer)
		}
		err := a.commit(ctx, by, moves)
		if errors.Is(err, errMoved) {
			continue
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
	err, refs := checkText("by", by, 1, repo.MaxNameBytes), map[Ref]bool{}
	for i, answer := range answers {
		field := fmt.Sprintf("answers[%d]", i)
		switch {
		case answer.Verdict != Approve && answer.Verdict != Deny && answer.Verdict != Withdraw:
			err = cmp.Or[error](err, &repo.InvalidError{Field: field + ".verdict", Reason: "is not approve, deny or withdraw"})
		case refs[answer.Ref]:
			err = cmp.Or[error](err, &repo.InvalidError{Field: field, Reason: "answers a request a second time"})
		}
		refs[answer.Ref] = true
		err = cmp.Or(err, checkText(field+".reason", answer.Reason, 0, MaxReason))
	}
	return err
}

// mayDecide returns a ForbiddenError if by may not decide, and a StatusError if by was shown another request.
func (a *Approvals) mayDecide(ctx context.Context, r Request, by string, answer Answer) error {
	allowed, err := slices.Contains(r.Deciders, by), error(nil)
	switch {
	case answer.Verdict == Withdraw:
		allowed = by == r.By
	case by == r.By && !r.SelfApproval:
		allowed = false
	case !allowed && a.options.MayDecide != nil:
		lent := r
		lent.Deciders, lent.Votes = slices.Clone(r.Deciders), slices.Clone(r.Votes)
		allowed, err = a.options.MayDecide(ctx, lent, by)
	}
	switch {
	case err == nil && !allowed:
		return &ForbiddenError{r.Ref, by}
	case err == nil && answer.Sum != "" && answer.Sum != r.Sum():
		return &StatusError{Ref: r.Ref, Status: r.Status, Differs: "sum"}
	}
	return err
}

// step is what becomes of a request.
type step struct {
	was      *record
	want, to Request // to is another one if it expires
	late     bool    // the answer came too late
}

func (r *record) step(status Status, votes []Vote) *step {
	want := r.as(status, votes)
	return &step{was: r, want: want, to: want}
}

// agrees has, for each verdict, the statuses of a request that agree with it.
var agrees = map[Verdict][]Status{Approve: {Open, Approved, Used}, Deny: {Denied}, Withdraw: {Withdrawn}}

// decided returns what an answer makes of a request.
func decided(r *record, by string, answer Answer) *step {
	said := slices.ContainsFunc(r.Votes, func(v Vote) bool { return v.By == by && v.Verdict == answer.Verdict })
	if r.Status != Open || said {
		m := r.step(r.Status, r.Votes)
		m.late = !said || !slices.Contains(agrees[answer.Verdict], r.Status)
		return m
	}
	// A person who has approved may deny while the request still needs other approvals.
	votes := slices.DeleteFunc(slices.Clone(r.Votes), func(v Vote) bool { return v.By == by })
	votes = append(votes, Vote{by, answer.Verdict, answer.Reason})
	status := Open
	switch {
	case answer.Verdict == Deny:
		status = Denied
	case answer.Verdict == Withdraw:
		status = Withdrawn
	case len(votes) >= r.Quorum:
		status = Approved
	}
	return r.step(status, votes)
}

func (m *step) moves() bool {
	return m.to.Status != m.was.Status || len(m.to.Votes) != len(m.was.Votes)
}

// commit makes the moves in one transaction, and lets expire what has expired by the database's clock.
func (a *Approvals) commit(ctx context.Context, by string, all []*step) error {
	moves := slices.DeleteFunc(slices.Clone(all), func(m *step) bool { return !m.moves() })
	if len(moves) == 0 {
		return nil
	}
	// In the same order in all transactions: plans are locked one by one.
	slices.SortFunc(moves, func(x, y *step) int { return x.was.PlanID.Compare(y.was.PlanID) })
	return a.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		return a.carryOut(ctx, tx, by, moves)
	})
}

// carryOut makes the moves with all that goes with them.
func (a *Approvals) carryOut(ctx context.Context, tx repo.Repositories, by string, moves []*step) error {
	if err := write(ctx, tx.State(), moves); err != nil {
		return err
	}
	var entries []repo.AuditEntry
	for _, m := range moves {
		if !m.moves() {
			return nil // it is alone, and was written to lock it: see Ask
		}
		entries = append(entries, a.entry(m.to, by))
		if m.to.Status == Open || m.to.Status == Used {
			continue
		}
		if err := a.wake(ctx, tx, m.to, by); err != nil {
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

// write makes the moves, unless another writer was first. Only a write returns the database's time: requests that have
// expired by then are written again.
func write(ctx context.Context, state repo.State, moves []*step) error {
	var changes []repo.StateChange
	for _, m := range moves {
		m.to, m.late = m.want, false // also of an attempt that is made again
		changes = append(changes, m.was.changes(m.to.Status, m.to.Votes, true)...)
	}
	if _, err := state.Change(ctx, changes); err != nil {
		return moved(err)
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
