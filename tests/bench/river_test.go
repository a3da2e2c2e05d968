package bench

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// riverQueue is a queue of River, with as many connections as the store has by default
// and, if that is not 0, a pause between fetches.
type riverQueue struct {
	pool, elsewhere *pgxpool.Pool
	pause           time.Duration
}

func newRiver(b *testing.B, pause time.Duration) queue {
	b.Helper()
	databaseURL := pgtest.NewEmptyDatabase(b)
	r := riverQueue{pgtest.NewPool(b, databaseURL), pgtest.NewPool(b, databaseURL), pause}
	migrator, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := migrator.Migrate(b.Context(), rivermigrate.DirectionUp, nil); err != nil {
		b.Fatal(err)
	}
	return r
}

type nothing struct{}

func (nothing) Kind() string { return "nothing" }

func (r riverQueue) client(b *testing.B, pool *pgxpool.Pool, config river.Config) *river.Client[pgx.Tx] {
	b.Helper()
	config.Logger = slog.New(slog.DiscardHandler)
	client, err := river.NewClient(riverpgxv5.New(pool), &config)
	if err != nil {
		b.Fatal(err)
	}
	return client
}

func (r riverQueue) fill(b *testing.B, count int) {
	b.Helper()
	client := r.client(b, r.pool, river.Config{})
	for left := count; left > 0; {
		jobs := make([]river.InsertManyParams, min(left, 10_000))
		for i := range jobs {
			jobs[i].Args = nothing{}
		}
		if _, err := client.InsertManyFast(b.Context(), jobs); err != nil {
			b.Fatal(err)
		}
		left -= len(jobs)
	}
	pgtest.Exec(b, r.pool, "ANALYZE river_job")
}

func (r riverQueue) add(b *testing.B) any {
	b.Helper()
	inserted, err := r.client(b, r.elsewhere, river.Config{}).Insert(b.Context(), nothing{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	return inserted.Job.ID
}

func (r riverQueue) work(b *testing.B, workers int, done func(worked)) (stop func()) {
	b.Helper()
	all := river.NewWorkers()
	river.AddWorker(all, river.WorkFunc(func(_ context.Context, job *river.Job[nothing]) error {
		done(worked{job.ID, time.Now()})
		return nil
	}))
	client := r.client(b, r.pool, river.Config{
		FetchCooldown: r.pause, Workers: all, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
	})
	if err := client.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	return func() {
		if err := client.Stop(context.WithoutCancel(b.Context())); err != nil {
			b.Error(err)
		}
	}
}
