package live

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/seed-df90f812/agentstore/repo"
)

// StatusError is an error that is answered with a status of its own. Authorize returns
// it.
type StatusError struct {
	// Status is from 400 to 599. Any other is answered with 500.
	Status int
	// Public is the text of the answer. Empty: the status's text.
	Public string
	// Header is added to the answer's, for example WWW-Authenticate.
	Header http.Header
	// Err is the cause, which is not sent. It may be nil.
	Err error
}

func (e *StatusError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("status %d", e.Status)
	}
	return fmt.Sprintf("status %d: %v", e.Status, e.Err)
}

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Err }

// statusOf returns the answer to an error. otherwise is for errors without a status.
func statusOf(err error, otherwise int) *StatusError {
	if answer, ok := errors.AsType[*StatusError](err); ok {
		if answer.Status < 400 || answer.Status > 599 {
			return &StatusError{Status: http.StatusInternalServerError, Err: err}
		}
		return answer
	}
	status := otherwise
	switch {
	case errors.Is(err, repo.ErrGone):
		status = http.StatusGone
	case errors.Is(err, repo.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, repo.ErrUnavailable), errors.Is(err, repo.ErrClosed), errors.Is(err, repo.ErrContention):
		return busy(http.StatusServiceUnavailable, err)
	}
	return &StatusError{Status: status, Err: err}
}

// retryAfter is in seconds.
const retryAfter = 1

// busy is the answer to a request that may be repeated.
func busy(status int, err error) *StatusError {
	return &StatusError{Status: status, Header: http.Header{"Retry-After": {strconv.Itoa(retryAfter)}}, Err: err}
}

func badRequest(field, reason string) error {
	err := &repo.InvalidError{Field: field, Reason: reason}
	return &StatusError{Status: http.StatusBadRequest, Public: err.Error(), Err: err}
}

// refuse answers a request with an error.
func refuse(w http.ResponseWriter, err *StatusError) {
	for name, values := range err.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = append([]string(nil), values...)
	}
	text := err.Public
	if text == "" {
		text = http.StatusText(err.Status)
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, text, err.Status)
}
