package repotest

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// secret is in values that must not appear in errors: names, contents, metadata.
const secret = "hunter2-4f9c"

// wantDiscreet checks that an error contains nothing of what was stored.
func wantDiscreet(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("the error contains a value: %v", err)
	}
}

// wantError checks that err is of type E and matches the sentinel and no other one,
// so that a caller that checks for several gets one answer. Only a refused import
// also matches its cause.
func wantError[E error](t *testing.T, err, sentinel error) (E, bool) {
	t.Helper()
	wantDiscreet(t, err)
	typed, ok := errors.AsType[E](err)
	if !ok {
		t.Errorf("got the error %v, want a %s", err, reflect.TypeFor[E]())
	} else {
		wantSentinel(t, err, sentinel)
	}
	return typed, ok
}

// wantSentinel checks that err matches the sentinel and no other one.
func wantSentinel(t *testing.T, err, sentinel error) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Errorf("%v is not %q", err, sentinel)
	}
	refused, isImport := errors.AsType[*repo.ImportError](err)
	for _, other := range repo.Sentinels() {
		allowed := errors.Is(sentinel, other) || errors.Is(err, repo.ErrGone) && errors.Is(other, repo.ErrNotFound) || isImport && (errors.Is(other, repo.ErrImport) || errors.Is(refused.Err, other))
		if !allowed && errors.Is(err, other) {
			t.Errorf("%v is %q as well as %q", err, other, sentinel)
		}
	}
}

// wantImportError checks that a document was refused.
func wantImportError(t *testing.T, err error) {
	t.Helper()
	_, _ = wantError[*repo.ImportError](t, err, repo.ErrImport)
}

// wantEqual checks the values of a typed error.
func wantEqual[E any](t *testing.T, got *E, want E) {
	t.Helper()
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("got the error %+v, want %+v", *got, want)
	}
}

func wantNotFound(t *testing.T, err error, kind string, id repo.ID) {
	t.Helper()
	if got, ok := wantError[*repo.NotFoundError](t, err, repo.ErrNotFound); ok {
		wantEqual(t, got, repo.NotFoundError{Kind: kind, ID: id})
	}
}

func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	if got, ok := wantError[*repo.InvalidError](t, err, repo.ErrInvalid); ok && (got.Field != field || got.Reason == "") {
		t.Errorf("got the error %q, want one about %s", got, field)
	}
}

func wantSessionConflict(t *testing.T, err error, want repo.ExistsError) {
	t.Helper()
	if got, ok := wantError[*repo.ExistsError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, want)
	}
}

func wantMessageConflict(t *testing.T, err error, session, id repo.ID, field string) {
	t.Helper()
	if got, ok := wantError[*repo.ExistsError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, repo.ExistsError{Kind: "message", SessionID: session, ID: id, Field: field})
	}
}

func wantSequenceConflict(t *testing.T, err error, want repo.SequenceConflictError) {
	t.Helper()
	if got, ok := wantError[*repo.SequenceConflictError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, want)
	}
}

func wantBudgetExceeded(t *testing.T, err error, want repo.LimitExceededError) {
	t.Helper()
	if got, ok := wantError[*repo.LimitExceededError](t, err, repo.ErrLimit); ok {
		wantEqual(t, got, want)
	}
}

func wantSession(t *testing.T, got, want repo.Session) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the session is\n%+v, want\n%+v", got, want)
	}
}

func wantMessage(t *testing.T, got, want repo.Message) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	got.Content, want.Content = brief([]byte(got.Content)), brief([]byte(want.Content))
	t.Errorf("the message is\n%+v, want\n%+v", got, want)
}

func wantMessages(t *testing.T, got, want []repo.Message) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("there are %d messages, want %d", len(got), len(want))
		return
	}
	for i := range got {
		wantMessage(t, got[i], want[i])
		if t.Failed() {
			return // one difference is enough to read
		}
	}
}

// wantDense checks that the messages are numbered without a gap.
func wantDense(t *testing.T, messages []repo.Message, first int64) {
	t.Helper()
	for i, message := range messages {
		if message.Sequence != first+int64(i) {
			t.Errorf("message %d has the sequence %d, want %d", i, message.Sequence, first+int64(i))
			return
		}
	}
}

// wantCount checks that the session has count messages, numbered from 0, and
// returns them.
func wantCount(t *testing.T, s repo.Sessions, id repo.ID, count int) []repo.Message {
	t.Helper()
	if got := get(t, s, id).MessageCount; got != int64(count) {
		t.Errorf("the session says that it has %d messages, want %d", got, count)
	}
	messages := readAll(t, s, id)
	if len(messages) != count {
		t.Errorf("the session has %d messages, want %d", len(messages), count)
	}
	wantDense(t, messages, 0)
	return messages
}

// brief shortens a document for a test's output.
func brief(document []byte) string {
	const most = 200
	if len(document) <= most {
		return string(document)
	}
	return string(bytes.ToValidUTF8(document[:most], nil)) + "…"
}

// wantSame compares two whole values.
func wantSame[V any](t *testing.T, what string, got, want V) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the %s is\n%+v, want\n%+v", what, got, want)
	}
}
