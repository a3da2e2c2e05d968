package budget

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/budget"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// run runs a task in a process of its own, which is killed when ctx ends: then ok is false.
func (t task) run(ctx context.Context) (result done, ok bool, err error) {
	command := pgtest.Again(ctx, taskVariable, t)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.Output()
	switch {
	case ctx.Err() != nil:
		return result, false, nil //nolint:nilerr // it was killed
	case err != nil:
		return result, false, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return result, true, json.Unmarshal(stdout, &result)
}

// scene is a database on which processes spend, with what audits them.
type scene struct {
	*testing.T

	store      *agentstore.Store
	url        string
	sum        string       // of a tenant, in SQL
	reads, bad atomic.Int64 // of the auditor; bad ones were above the limit
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, url: pgtest.NewDatabase(t)}
	s.store = pgtest.OpenStore(t, s.url, agentstore.Options{MaxConns: 4})
	for _, sql := range []string{
		"CREATE TABLE naive (id text PRIMARY KEY, name text NOT NULL, tokens bigint NOT NULL)",
		"CREATE INDEX ON naive (name)",
		"CREATE TABLE violations (key text, value text)",
		// Every write, besides what the auditor happens to read.
		fmt.Sprintf(`CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO violations VALUES (new.key, new.value::text); RETURN NULL; END $$;
			CREATE TRIGGER look AFTER INSERT OR UPDATE ON state_values FOR EACH ROW
			WHEN (new.key LIKE 'used/%%' AND new.value::text::bigint NOT BETWEEN 0 AND %d) EXECUTE FUNCTION look()`, maxTokens),
	} {
		if _, err := s.store.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s.sum = `SELECT max(value::text::bigint) FROM state_values WHERE key LIKE 'used/%'`
	return s
}

// audit reads, until ctx ends, what is used.
func (s *scene) audit(ctx context.Context) {
	for ctx.Err() == nil {
		var most *int64
		if err := s.store.Pool().QueryRow(ctx, s.sum).Scan(&most); err != nil {
			if ctx.Err() == nil {
				s.Error(err)
			}
			return
		}
		s.reads.Add(1)
		if most != nil && *most > maxTokens {
			s.bad.Add(1)
		}
		time.Sleep(time.Millisecond) // pace: others work
	}
}

func (s *scene) count(sql string) (n int64) {
	s.Helper()
	if err := s.store.Pool().QueryRow(s.Context(), sql).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

// names returns the names of the tenants.
func (s *scene) names() (names []string) {
	s.Helper()
	rows, err := s.store.Pool().Query(s.Context(), "SELECT name FROM state_scopes WHERE name LIKE 'budget/%'")
	if err != nil {
		s.Fatal(err)
	}
	scopes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.Fatal(err)
	}
	for _, scope := range scopes {
		names = append(names, adapter.SplitKey(scope)[1])
	}
	return names
}

// spendAll runs processes to their end, while others are killed one after the other until those have ended.
func (s *scene) spendAll(steady, killed task, processes int, whileAlive func(ctx context.Context)) (total done) {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	var all, others sync.WaitGroup
	var mu sync.Mutex
	for i := range processes {
		own := steady
		own.Process = fmt.Sprint("steady", i)
		all.Go(func() {
			result, _, err := own.run(s.Context())
			if err != nil {
				s.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			total.Reserved += result.Reserved
			total.Refused += result.Refused
		})
	}
	for i := range 4 - processes {
		others.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				own := killed
				own.Process = fmt.Sprint("killed", i, "-", n)
				alive, kill := context.WithCancel(ctx)
				var watcher sync.WaitGroup
				watcher.Go(func() {
					whileAlive(alive)
					kill()
				})
				if _, _, err := own.run(alive); err != nil {
					s.Error(err)
				}
				kill()
				watcher.Wait()
			}
		})
	}
	others.Go(func() { s.audit(ctx) })
	all.Wait()
	stop()
	others.Wait()
	return total
}

// settled checks that nothing but what the stored answers say is used, after the reservations of the dead have expired.
func (s *scene) settled(names []string) {
	s.Helper()
	keeper, err := budget.New(s.store, budget.Options{})
	if err != nil {
		s.Fatal(err)
	}
	expired := 0
	await.For(s, "the reservations of the dead to come back", func() bool {
		n, err := keeper.Sweep(s.Context(), names...)
		if err != nil {
			s.Fatal(err)
		}
		expired += n
		return s.count("SELECT count(*) FROM state_values WHERE key LIKE 'held/%'") == 0
	})
	violations := s.count("SELECT count(*) FROM violations")
	stored := s.count("SELECT coalesce(sum(content::bigint), 0) FROM messages")
	used := s.count("SELECT coalesce(sum(value::text::bigint), 0) FROM state_values WHERE key LIKE 'used/%'")
	wrong := s.count(`SELECT count(*) FROM (
		SELECT replace(split_part(s.name, '/', 2), '~1', '/') AS name, sum(v.value::text::bigint) AS used FROM state_values v JOIN state_scopes s ON s.id = v.scope_id
		WHERE v.key LIKE 'used/%' GROUP BY 1) u
		FULL JOIN (SELECT kind AS name, sum(content::bigint) AS used FROM messages GROUP BY 1) m USING (name)
		WHERE u.used IS DISTINCT FROM m.used`)
	s.Logf("%d answers; %d of the dead came back; used %d, stored %d; the auditor read %d times", s.count("SELECT count(*) FROM messages"),
		expired, used, stored, s.reads.Load())
	if violations != 0 || s.bad.Load() != 0 || used != stored || wrong != 0 || stored == 0 {
		s.Errorf("%d writes and %d reads above the limit; used %d, stored %d; %d tenants are wrong", violations, s.bad.Load(), used, stored, wrong)
	}
}

// 64 writers in 4 processes, of which two are killed again and again.
// Guarantee: Budgets: Budgets of processes that are killed come back exactly.
func TestProcesses(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const calls, perName = 160, 80
	steady := task{DatabaseURL: s.url, Writers: 16, Calls: calls, PerName: perName, Life: time.Hour}
	killed := steady
	killed.Calls = 1 << 30
	total := s.spendAll(steady, killed, 2, func(ctx context.Context) {
		before := s.count("SELECT count(*) FROM messages")
		for ctx.Err() == nil && s.count("SELECT count(*) FROM messages") < before+400 {
			time.Sleep(5 * time.Millisecond) // pace: others work
		}
	})
	t.Logf("%+v", total)
	names := s.names()
	if _, err := s.store.Pool().Exec(t.Context(), "UPDATE state_values SET updated_at = updated_at - interval '2 hours' WHERE key LIKE 'held/%'"); err != nil {
		t.Fatal(err)
	}
	s.settled(names)
	if total.Refused == 0 || total.Reserved == 0 {
		t.Errorf("it was no test of a limit: %+v", total)
	}
}

// The same harness finds that reading, comparing and inserting passes a limit.
func TestNaiveProcesses(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.sum = "SELECT max(tokens)::bigint FROM (SELECT sum(tokens) AS tokens FROM naive GROUP BY name) n"
	steady := task{DatabaseURL: s.url, Naive: true, Writers: 16, Calls: 160, PerName: 80}
	total := s.spendAll(steady, steady, 4, nil)
	t.Logf("%+v; %d of %d reads above the limit", total, s.bad.Load(), s.reads.Load())
	if s.bad.Load() == 0 {
		t.Error("the naive way kept the limit: this harness finds nothing")
	}
}

// As many reservations as fit into the time that AGENTSTORE_TEST_BUDGET says, with processes that are killed, and lives
// that end by themselves.
func TestLoad(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("AGENTSTORE_TEST_BUDGET"))
	if err != nil {
		t.Skip("AGENTSTORE_TEST_BUDGET says no time, such as 8m")
	}
	s := newScene(t)
	steady := task{DatabaseURL: s.url, Writers: 16, For: lasts, PerName: 80, Life: 20 * time.Second}
	begun := time.Now()
	total := s.spendAll(steady, steady, 3, func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(15 * time.Second): // short: it is killed
		}
	})
	took := time.Since(begun)
	all := total.Reserved + total.Refused
	t.Logf("%+v in %v of those not killed: %.0f decisions/s", total, took.Round(time.Second), float64(all)/took.Seconds())
	names := s.names()
	ended := time.Now()
	s.settled(names)
	t.Logf("all was exact %v after the end", time.Since(ended).Round(time.Millisecond))
}

// The keeper's time is the database's.
func TestClock(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	keeper, err := budget.New(store, budget.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := func() (at time.Time) {
		if err := store.Pool().QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	request := budget.Request{ID: "1", Limits: []budget.Limit{{Name: "a", Unit: budget.Money, Period: budget.Day, Max: 1}}}
	before := now()
	r, _, err := keeper.Propose(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	// It is ahead by the time that the reading took, at most.
	if after := now(); r.At.Before(before) || r.At.After(after.Add(after.Sub(before))) {
		t.Errorf("%v is not between %v and %v", r.At, before, after)
	}
	// The time that was stored last is tomorrow's: the server's clock has stepped back since.
	if _, err := store.Pool().Exec(t.Context(), "UPDATE state_values SET updated_at = updated_at + interval '1 day'"); err != nil {
		t.Fatal(err)
	}
	other, err := budget.New(store, budget.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, _, err = other.Propose(t.Context(), request)
	if after := now(); err != nil || r.At.Before(before) || r.At.After(after.Add(after.Sub(before))) {
		t.Errorf("%v is not between %v and %v: %v", r.At, before, after, err)
	}
	if _, err := store.State().Get(t.Context(), repo.Scope{Name: budget.ScopeName("a")}, "held/1"); err == nil {
		t.Error("a proposal is stored")
	}
}
