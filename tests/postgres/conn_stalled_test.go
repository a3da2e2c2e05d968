package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// stalled is a reader and writer that works until its room is used up, and then
// blocks until it is released.
type stalled struct {
	document io.Reader
	room     int
	stalls   *atomic.Int64
	released chan struct{}
}

func (s *stalled) Read(p []byte) (int, error) {
	if s.room == 0 {
		s.stall()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := s.document.Read(p[:min(len(p), s.room)])
	s.room -= n
	return n, err
}

func (s *stalled) Write(p []byte) (int, error) {
	if s.room -= len(p); s.room < 0 {
		s.stall()
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func (s *stalled) stall() {
	s.stalls.Add(1)
	<-s.released
}

// As many stalled readers and writers as the pool has connections delay no other
// operation, and no call outlives its context because of them.
// Guarantee: Memory: Stalled imports and exports hold no connection of the pool.
func TestStalledReadersAndWriters(t *testing.T) {
	t.Parallel()
	const conns = 4
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: conns})
	sessions := store.Sessions()
	id := pgtest.NewSession(t, store)
	for range 3 { // several chunks of an import
		batch := make([]repo.NewMessage, 1000)
		for i := range batch {
			batch[i] = user("a message that takes some room in the document")
		}
		if _, err := sessions.Append(t.Context(), id, batch...); err != nil {
			t.Fatal(err)
		}
	}
	entries := make([]repo.AuditEntry, 1000)
	for i := range entries {
		entries[i] = repo.AuditEntry{Type: events.ToolInvoked, SessionID: id}
	}
	if err := store.Audit().Record(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	var document bytes.Buffer
	if err := sessions.Export(t.Context(), id, &document); err != nil {
		t.Fatal(err)
	}
	working := pgtest.NewSession(t, store)
	for name, call := range map[string]func(ctx context.Context, s *stalled) error{
		"Import": func(ctx context.Context, s *stalled) error {
			_, err := sessions.Import(ctx, s, true)
			return err
		},
		"Export":       func(ctx context.Context, s *stalled) error { return sessions.Export(ctx, id, s) },
		"Audit.Export": func(ctx context.Context, s *stalled) error { return store.Audit().Export(ctx, repo.AuditFilter{}, s) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var stalls atomic.Int64
		released, ended := make(chan struct{}), make(chan error, conns)
		for range conns {
			go func() {
				ended <- call(ctx, &stalled{bytes.NewReader(document.Bytes()), document.Len() / 2 % 200_000, &stalls, released})
			}()
		}
		await.For(t, fmt.Sprintf("%s: all %d stall", name, conns), func() bool { return stalls.Load() >= conns })
		if _, err := sessions.Append(await.Context(t), working, user("x")); err != nil {
			t.Errorf("%s: beside those that stall an append fails: %v", name, err)
		}
		if _, err := sessions.Get(await.Context(t), working); err != nil {
			t.Errorf("%s: beside those that stall a read fails: %v", name, err)
		}
		cancel()
		for range conns {
			if err := await.Value(t, name+": to end with its context", ended); !errors.Is(err, context.Canceled) || errors.Is(err, repo.ErrImport) {
				t.Errorf("%s: after its context ended it gave %v", name, err)
			}
		}
		close(released)
	}
}
