package main

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/command"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestMain(m *testing.M) { os.Exit(command.Main(m)) }

// Message, state and job are committed together, or not; a mail waits for a slot; and what is old expires.
func TestJobs(t *testing.T) {
	var at, most, sent atomic.Int64
	pool := pgtest.NewPool(t, pgtest.NewDatabase(t))
	s, err := newService(t.Context(), pool, func(context.Context, Mail) error {
		now := at.Add(1)
		for most.Load() < now {
			most.Store(now)
		}
		time.Sleep(50 * time.Millisecond) // pace: others are sent meanwhile
		at.Add(-1)
		sent.Add(1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.store.Close() }()
	session, err := s.store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	const posts = 5
	for range posts {
		if err := s.post(t.Context(), session.ID, "hello"); err != nil {
			t.Fatal(err)
		}
	}
	failed := errors.New("failed")
	if err := s.store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if err := s.postIn(ctx, tx, session.ID, "never"); err != nil {
			return err
		}
		return failed
	}); !errors.Is(err, failed) {
		t.Error(err)
	}
	count, err := s.store.State().Get(t.Context(), repo.Scope{SessionID: session.ID}, "posts")
	if err != nil || string(count.Value) != "5" {
		t.Errorf("posts: %s, %v", count.Value, err)
	}
	if jobs := pgtest.Value[int64](t, pool, "SELECT count(*) FROM river_job WHERE kind = 'mail'"); jobs != posts {
		t.Errorf("%d jobs", jobs)
	}
	pgtest.Exec(t, pool, "UPDATE sessions SET created_at = now() - interval '1 year'")

	if err := s.jobs.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.For(t, "the mails are sent, and the session has expired", func() bool {
		_, err := s.store.Sessions().Get(t.Context(), session.ID)
		return sent.Load() == posts && errors.Is(err, repo.ErrNotFound)
	})
	if most.Load() > mails {
		t.Errorf("%d mails were sent at once", most.Load())
	}
	if err := s.jobs.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}
