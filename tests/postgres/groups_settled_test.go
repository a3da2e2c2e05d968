package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// slowCommits has each commit that has inserted into a table take 50 ms.
func slowCommits(t *testing.T, pool *pgxpool.Pool, table string) {
	t.Helper()
	pgtest.Exec(t, pool, `CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM set_config('test.slept', pg_sleep(0.05)::text || 'yes', true) WHERE current_setting('test.slept', true) IS DISTINCT FROM 'yes'; RETURN NULL; END $$`)
	pgtest.Exec(t, pool, "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON "+table+" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()")
}

// Some workers of a process are stopped while others wait for the same statement. Those that were
// stopped leave nothing behind: no plan stays claimed by them, and none has lost an attempt.
// Guarantee: Faults: A worker that is stopped during its claim leaves nothing claimed.
func TestStoppedWorkersLeaveNothing(t *testing.T) {
	t.Parallel()
	const workers, stops = 8, 4
	for _, slowly := range []bool{false, true} {
		store := process(t, pgtest.NewDatabase(t), func(c *pgxpool.Config) { c.MaxConns = 4 })
		if slowly {
			slowCommits(t, store.Pool(), "plan_history")
		}
		rounds, left := pgtest.Choose(100, 15), 0
		for round := range rounds {
			namespace := fmt.Sprint("queue", round)
			queueMany(t, store.Pool(), namespace, workers)
			stopping, stop := context.WithCancel(t.Context())
			others, end := context.WithCancel(t.Context())
			var stopped, running sync.WaitGroup
			for n := range workers {
				of, group := others, &running
				if n < stops {
					of, group = stopping, &stopped
				}
				group.Go(func() {
					owner := fmt.Sprintf("worker %d of %d", n, round)
					err := repo.Work(of, store, repo.Claim{Owner: owner, Namespaces: []string{namespace}, TTL: time.Hour},
						func(ctx context.Context, _ repo.ClaimedPlan) error {
							<-ctx.Done()
							return ctx.Err()
						})
					if !errors.Is(err, context.Canceled) {
						t.Errorf("%s ended with %v", owner, err)
					}
				})
			}
			begin := 8 * time.Millisecond
			if slowly {
				begin *= 10
			}
			time.Sleep(rand.N(begin)) // pace: they are stopped in whatever step
			// A claim whose answer takes more than a second has an unknown outcome, and the machine was late.
			late := false
			ended := func(stop func(), workers *sync.WaitGroup) {
				before := time.Now()
				stop()
				workers.Wait()
				late = late || time.Since(before) > time.Second // short: it only excuses
			}
			ended(stop, &stopped)
			var kept int
			if err := store.Pool().QueryRow(t.Context(), "SELECT count(*) FROM leases WHERE owner LIKE 'worker _ of %' AND split_part(owner, ' ', 4) = $1"+
				" AND split_part(owner, ' ', 2)::int < $2", fmt.Sprint(round), stops).Scan(&kept); err != nil {
				t.Fatal(err)
			}
			if kept > 0 && !late {
				left++
			}
			ended(end, &running)
			var claimed, attempts int
			if err := store.Pool().QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE state <> 'queued'), count(*) FILTER (WHERE attempt > 1)"+
				" FROM plans WHERE namespace = $1", namespace).Scan(&claimed, &attempts); err != nil {
				t.Fatal(err)
			}
			if (claimed > 0 || attempts > 0) && !late {
				t.Errorf("%d plans are not queued, %d are in another attempt", claimed, attempts)
			}
		}
		if t.Logf("commits are slow: %t; %d stops, %d left a plan claimed", slowly, rounds, left); left > 0 {
			t.Errorf("%d of %d stops left a plan claimed", left, rounds)
		}
	}
}

// Writers of parts whose contexts end have stored what they say, and nothing more afterwards,
// although their parts are in one statement with those of another.
func TestPartsOfAnEndedContext(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	slowCommits(t, store.Pool(), "stream_parts")
	unknown := 0
	for round := 0; round < pgtest.Choose(15, 6)+unknown; round++ {
		ctx, cancel := context.WithCancel(t.Context())
		var writers []*live.PartWriter
		for n := range 3 {
			stream, of := openStream(t, store, fmt.Sprint(round, "/", n)), ctx
			if n == 0 {
				of = t.Context()
			}
			writers = append(writers, live.NewPartWriter(of, store.Streams(), stream))
		}
		for range 3 {
			for _, w := range writers {
				_ = w.Write(t.Context(), []byte("x"))
			}
			time.Sleep(rand.N(30 * time.Millisecond)) // pace: they end in whatever step
		}
		cancel()
		said, late := make([]int64, len(writers)), false
		for n, w := range writers[1:] {
			err := w.Flush(ctx)
			if !errors.Is(err, context.Canceled) && err != nil {
				t.Errorf("round %d: %v", round, err)
			}
			late = late || errors.Is(err, repo.ErrUnknownOutcome)
			said[n+1] = w.Stream().Next
		}
		if err := writers[0].Flush(t.Context()); err != nil || writers[0].Stream().Next != 3 {
			t.Errorf("the other has stored %d parts, %v", writers[0].Stream().Next, err)
		}
		if late { // the machine: a commit takes a twentieth of the second after which the outcome is unknown
			if unknown++; unknown > 50 {
				t.Fatal("the outcome is unknown again and again")
			}
			continue
		}
		await.For(t, "no group is under way", func() bool {
			return !slices.ContainsFunc(store.Stats().Committers, func(c postgres.CommitterStats) bool { return c.Groups+c.Waiting > 0 })
		})
		for n, w := range writers[1:] {
			stored := pgtest.Value[int64](t, store.Pool(), "SELECT count(*) FROM stream_parts WHERE stream_id = $1", [16]byte(w.Stream().ID))
			if stored != said[n+1] {
				t.Errorf("round %d: %d parts are stored, but the writer says %d", round, stored, said[n+1])
			}
		}
	}
}
