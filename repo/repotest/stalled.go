package repotest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

// stall is a reader and a writer whose calls after the first block until it is
// released.
type stall struct {
	document io.Reader // read by the first Read
	calls    atomic.Int64
	released chan struct{}
}

func (s *stall) Read(p []byte) (int, error) {
	if s.calls.Add(1) > 1 {
		<-s.released
		return 0, io.ErrUnexpectedEOF
	}
	return s.document.Read(p)
}

func (s *stall) Write(p []byte) (int, error) {
	if s.calls.Add(1) > 1 {
		<-s.released
	}
	return len(p), nil
}

// An import from a reader that stalls, and an export to a writer that stalls, end
// with their contexts and write nothing. The pending Read or Write of the caller
// continues and is the last one.
// Guarantee: Memory: A stalled import or export ends with its context.
func testStalled(t *testing.T, store repo.Store) {
	s, audit := store.Sessions(), store.Audit()
	id := create(t, s)
	appendTo(t, s, id, users(5000)...)
	document := export(t, s, id)
	entries := make([]repo.AuditEntry, 1000)
	project := randomName()
	for i := range entries {
		entries[i] = auditEntry(store)
		entries[i].Project = project
	}
	record(t, audit, entries...)
	imported := create(t, s)
	whole := export(t, s, imported)
	remove(t, s, imported)
	for name, call := range map[string]func(ctx context.Context, stalled *stall) error{
		"Import": func(ctx context.Context, stalled *stall) error {
			stalled.document = bytes.NewReader(whole[:len(whole)-5])
			_, err := s.Import(ctx, stalled, true)
			return err
		},
		"Import of a long document": func(ctx context.Context, stalled *stall) error {
			stalled.document = bytes.NewReader(document)
			_, err := s.Import(ctx, stalled, true)
			return err
		},
		"Export": func(ctx context.Context, stalled *stall) error { return s.Export(ctx, id, stalled) },
		"Audit.Export": func(ctx context.Context, stalled *stall) error {
			return audit.Export(ctx, repo.AuditFilter{Project: project}, stalled)
		},
	} {
		stalled := &stall{released: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- call(ctx, stalled) }()
		await.For(t, name+" stalls", func() bool { return stalled.calls.Load() == 2 || len(ended) > 0 })
		cancel()
		err := await.Value(t, name+" ends with its context", ended)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: its context ended, and it gave %v", name, err)
		}
		wantDiscreet(t, err)
		close(stalled.released)
		if calls := stalled.calls.Load(); calls != 2 {
			t.Errorf("%s: %d calls of the caller's, want 2", name, calls)
		}
		_, err = s.Get(t.Context(), imported)
		wantNotFound(t, err, "session", imported)
	}
	importFrom(t, s, bytes.NewReader(whole))
}
