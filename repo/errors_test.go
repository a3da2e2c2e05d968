package repo_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

var sentinels = []error{
	repo.ErrInvalid, repo.ErrNotFound, repo.ErrConflict, repo.ErrBudgetExceeded, repo.ErrImport, repo.ErrClosed,
	repo.ErrUnavailable, repo.ErrContention, repo.ErrUnknownOutcome, repo.ErrSchema,
}

// Each typed error is its sentinel and no other one, wrapped too, and its text
// holds the facts.
func TestTypedErrors(t *testing.T) {
	session, message := repo.NewID(), repo.NewID()
	for _, test := range []struct {
		err   error
		is    []error
		holds []string
	}{
		{&repo.InvalidError{Field: "actor", Reason: "is odd"}, []error{repo.ErrInvalid}, []string{"actor is odd"}},
		{&repo.NotFoundError{Kind: "session", ID: session}, []error{repo.ErrNotFound}, []string{"session " + session.String()}},
		{&repo.SequenceConflict{SessionID: session, Expected: 3, Next: 5}, []error{repo.ErrConflict}, []string{session.String(), "3", "5"}},
		{&repo.SessionConflict{ID: session, Field: "actor"}, []error{repo.ErrConflict}, []string{session.String(), "actor"}},
		{&repo.MessageConflict{SessionID: session, ID: message, Field: "content"}, []error{repo.ErrConflict},
			[]string{session.String(), message.String(), "content"}},
		{&repo.MessageConflict{SessionID: session, ID: message, Field: "batch"}, []error{repo.ErrConflict},
			[]string{session.String(), message.String(), "others of its batch are not"}},
		{&repo.BudgetExceeded{SessionID: session, Budget: 2 * repo.CostUnit, Cost: repo.CostUnit, Requested: repo.CostUnit + 1},
			[]error{repo.ErrBudgetExceeded}, []string{session.String(), "1 + 1.000000001", "of 2"}},
		{&repo.ImportError{Field: "messages[1].role", Reason: "is missing"}, []error{repo.ErrImport}, []string{"messages[1].role is missing"}},
		{&repo.ImportError{Field: "session.id", Reason: "is taken", Err: &repo.SessionConflict{ID: session, Field: "id"}},
			[]error{repo.ErrImport, repo.ErrConflict}, []string{"is taken", session.String()}},
		{&repo.ImportError{Field: "document", Reason: "is cut off", Err: io.ErrUnexpectedEOF},
			[]error{repo.ErrImport, io.ErrUnexpectedEOF}, []string{"is cut off"}},
	} {
		wrapped := fmt.Errorf("outer: %w", test.err)
		for _, want := range test.is {
			if !errors.Is(wrapped, want) {
				t.Errorf("%T is not %v", test.err, want)
			}
		}
		for _, sentinel := range sentinels {
			expected := false
			for _, want := range test.is {
				expected = expected || want == sentinel //nolint:errorlint // identity is meant
			}
			if errors.Is(wrapped, sentinel) != expected {
				t.Errorf("%T is %v: %v", test.err, sentinel, !expected)
			}
		}
		for _, part := range test.holds {
			if !strings.Contains(test.err.Error(), part) {
				t.Errorf("%q does not hold %q", test.err, part)
			}
		}
	}
}

func TestTypedErrorsKeepTheirFacts(t *testing.T) {
	var sequence *repo.SequenceConflict
	if !errors.As(fmt.Errorf("x: %w", &repo.SequenceConflict{Expected: 1, Next: 2}), &sequence) || sequence.Next != 2 {
		t.Error("SequenceConflict")
	}
	var budget *repo.BudgetExceeded
	if !errors.As(fmt.Errorf("x: %w", &repo.BudgetExceeded{Budget: 1, Requested: 2}), &budget) || budget.Requested != 2 {
		t.Error("BudgetExceeded")
	}
	var missing *repo.NotFoundError
	if !errors.As(fmt.Errorf("x: %w", &repo.NotFoundError{Kind: "message"}), &missing) || missing.Kind != "message" {
		t.Error("NotFoundError")
	}
	var session *repo.SessionConflict
	if !errors.As(error(&repo.ImportError{Err: &repo.SessionConflict{Field: "id"}}), &session) || session.Field != "id" {
		t.Error("SessionConflict within ImportError")
	}
	for i, a := range sentinels {
		for j, b := range sentinels {
			if i != j && errors.Is(a, b) {
				t.Errorf("%v is %v", a, b)
			}
		}
	}
}
