package approval

import (
	"fmt"

	"github.com/seed-df90f812/agentstore/repo"
)

// StatusError reports that a request does not allow what was to be done: it has another outcome already, or it is not
// approved, or for another act. It matches repo.ErrConflict.
type StatusError struct {
	Ref
	Status  Status
	By      []string // the voters, in the order of their votes; none if it is undecided or has expired
	Differs string   // what differs: "kind", "subject", "arguments" (Use) or "sum" (Decide); empty: nothing
}

func (e *StatusError) Error() string {
	switch {
	case e.Differs != "":
		return fmt.Sprintf("%s is another one: its %s differs", e.text(), e.Differs)
	case len(e.By) > 0:
		return fmt.Sprintf("%s is %s, by %q", e.text(), e.Status, e.By)
	}
	return fmt.Sprintf("%s is %s", e.text(), e.Status)
}

func (e *StatusError) Is(target error) bool { return target == repo.ErrConflict }

// ForbiddenError reports a person who may not decide. It matches repo.ErrConflict.
type ForbiddenError struct {
	Ref
	By string
}

func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("%s is not for %q to decide", e.text(), e.By)
}

func (e *ForbiddenError) Is(target error) bool { return target == repo.ErrConflict }

// ForeignError reports a request that was not asked here as it is stored: it came with the import of a session, or
// the session's state was changed by hand. Decide and Use refuse it. It matches repo.ErrConflict.
type ForeignError struct{ Ref }

func (e *ForeignError) Error() string {
	return e.text() + " was not asked in this store as it is stored: ask again with another id"
}

func (e *ForeignError) Is(target error) bool { return target == repo.ErrConflict }

// text is what errors call a request.
func (r Ref) text() string { return fmt.Sprintf("approval %q of session %v", r.ID, r.SessionID) }

// statusError is the error of a request at its status.
func statusError(r Request) *StatusError {
	e := &StatusError{Ref: r.Ref, Status: r.Status}
	for _, v := range r.Votes {
		if approved := r.Status == Approved || r.Status == Used; r.Status != Expired && (v.Verdict == Approve) == approved {
			e.By = append(e.By, v.By)
		}
	}
	return e
}
