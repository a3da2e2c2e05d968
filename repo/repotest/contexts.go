package repotest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

func contextTests() []test {
	return []test{
		{"Canceled", func(t *testing.T, store repo.Store) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			testContextEnded(t, store.Sessions(), ctx, context.Canceled)
		}},
		{"DeadlineExceeded", func(t *testing.T, store repo.Store) {
			ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
			defer cancel()
			testContextEnded(t, store.Sessions(), ctx, context.DeadlineExceeded)
		}},
		{"Stream", testStreamContext},
		{"EndsMeanwhile", testContextEndsMeanwhile},
		{"Stalled", testStalled},
	}
}

// operations are calls of all methods of Sessions, which are valid but for one.
type operations struct {
	id, fresh, doomed, imported repo.ID
	document                    []byte
}

func newOperations(t *testing.T, s repo.Sessions) *operations {
	t.Helper()
	o := &operations{id: create(t, s), fresh: repo.NewID(), doomed: create(t, s), imported: create(t, s)}
	appendTo(t, s, o.id, user("x"))
	o.document = export(t, s, o.imported)
	remove(t, s, o.imported)
	return o
}

func (o *operations) all(ctx context.Context, s repo.Sessions) map[string]func() error {
	return map[string]func() error{
		"Get":            func() error { _, err := s.Get(ctx, o.id); return err },
		"Read":           func() error { _, err := s.Read(ctx, repo.ReadSessions{IDs: []repo.ID{o.id}, Last: 1}); return err },
		"List":           func() error { _, err := s.List(ctx, repo.SessionFilter{AnyOwner: true}, repo.Page{}); return err },
		"Namespaces":     func() error { _, err := s.Namespaces(ctx, repo.Page{}); return err },
		"Create":         func() error { _, err := s.Create(ctx, repo.NewSession{ID: o.fresh}); return err },
		"Update":         func() error { _, err := s.Update(ctx, o.id, repo.SessionUpdate{Actor: ptr("x")}); return err },
		"AddUsage":       func() error { _, err := s.AddUsage(ctx, o.id, repo.NewUsage{Cost: 1}); return err },
		"Delete":         func() error { _, err := s.Delete(ctx, o.doomed); return err },
		"Message":        func() error { _, err := s.Message(ctx, o.id, repo.NewID()); return err },
		"MessagesFrom":   func() error { _, err := s.MessagesFrom(ctx, o.id, 0, 1); return err },
		"MessagesBefore": func() error { _, err := s.MessagesBefore(ctx, o.id, 1, 1); return err },
		"LastMessages":   func() error { _, err := s.LastMessages(ctx, o.id, 1); return err },
		"MessagesOfCall": func() error { _, err := s.MessagesOfCall(ctx, o.id, "x"); return err },
		"Turn":           func() error { _, err := s.Turn(ctx, o.id, "x"); return err },
		"Stream":         func() error { _, err := collect(s.Messages(ctx, o.id, 0)); return err },
		"Follow":         func() error { _, err := collect(s.Follow(ctx, o.id, 0)); return err },
		"Append":         func() error { _, err := s.Append(ctx, o.id, user(secret)); return err },
		"Append by id":   func() error { _, err := s.Append(ctx, o.id, fullMessage()); return err },
		"AppendAt":       func() error { _, err := appendAt(ctx, s, o.id, 1, user(secret)); return err },
		"Export":         func() error { return s.Export(ctx, o.id, io.Discard) },
		"Import": func() error {
			_, err := s.Import(ctx, bytes.NewReader(o.document), true)
			return err
		},
		// Whether it may is decided before it reads.
		"Import of no document": func() error {
			_, err := s.Import(ctx, strings.NewReader(""), true)
			return err
		},
	}
}

// A context that has already ended stops every operation before it begins.
//
//nolint:revive // the context is what is tested
func testContextEnded(t *testing.T, s repo.Sessions, ctx context.Context, want error) {
	o := newOperations(t, s)
	before := get(t, s, o.id)
	for name, run := range o.all(ctx, s) {
		err := run()
		if !errors.Is(err, want) {
			t.Errorf("%s gave %v, want %v", name, err, want)
		}
		if errors.Is(err, repo.ErrUnknownOutcome) {
			t.Errorf("%s gave %v, but nothing can have been sent", name, err)
		}
		wantDiscreet(t, err)
	}
	wantSession(t, get(t, s, o.id), before)
	wantCount(t, s, o.id, 1)
	wantCount(t, s, o.doomed, 0)
	for _, id := range []repo.ID{o.fresh, o.imported} {
		_, err := s.Get(t.Context(), id)
		wantNotFound(t, err, "session", id)
	}
}

// If a context ends during an append, the append returns the context's error and
// has written nothing, or it returns ErrUnknownOutcome, or it succeeds. Repeating
// it with the same id is safe in each case.
func testContextEndsMeanwhile(t *testing.T, store repo.Store) {
	const rounds = 60
	s := store.Sessions()
	id := create(t, s)
	for round := range rounds {
		message := fullMessage()
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(round)*50*time.Microsecond)
		stored, err := s.Append(ctx, id, message)
		cancel()
		_, readErr := s.Message(t.Context(), id, message.ID)
		switch {
		case err == nil:
			wantStored(t, id, int64(round), []repo.NewMessage{message}, stored)
		case errors.Is(err, repo.ErrUnknownOutcome):
		case errors.Is(err, context.DeadlineExceeded):
			wantNotFound(t, readErr, "message", message.ID)
		default:
			t.Errorf("got %v, want the context's error or ErrUnknownOutcome", err)
		}
		wantDiscreet(t, err)
		again := appendTo(t, s, id, message)
		wantStored(t, id, int64(round), []repo.NewMessage{message}, again)
	}
	wantCount(t, s, id, rounds)
}
