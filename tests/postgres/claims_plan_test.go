package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// planMode is an option of pools: a connection, and how the server plans on it, whatever
// its setting is.
func planMode(mode string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.RuntimeParams["plan_cache_mode"] = mode
	}
}

// queueMany queues plans of local/claimed at once.
func queueMany(t *testing.T, database pgtest.Database, namespace string, count int) {
	t.Helper()
	pgtest.Exec(t, database, `INSERT INTO actions (name, namespace, reusable, read_only, max_attempts) VALUES ('local/claimed', 'local', true, false, 5)
		ON CONFLICT DO NOTHING`)
	pgtest.Exec(t, database, `WITH made AS (
			INSERT INTO plans (id, namespace, action_name, root_id, phase, state, max_attempts)
			SELECT m.id, $1, 'local/claimed', m.id, 'strategize', 'queued', 5
			FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, $2::integer)) AS m
			RETURNING id
		) INSERT INTO plan_history (plan_id, version, transition, to_phase, to_state) SELECT id, 1, 'use', 'strategize', 'queued' FROM made`,
		namespace, count)
}

func numbered(name string, count int) (names []string) {
	for n := range count {
		names = append(names, fmt.Sprint(name, n))
	}
	return names
}

// claimsOfManyKinds ask for few and for many.
func claimsOfManyKinds() []repo.Claim {
	return []repo.Claim{
		{Owner: "worker", Namespaces: []string{"ns1"}},
		{Owner: "worker", Namespaces: numbered("ns", 4), Limit: 3},
		{Owner: "worker", Namespaces: []string{"ns2"}, Phases: []repo.Phase{repo.PhaseApply}, Actions: numbered("ns2/action", 50)},
	}
}

// looks are the statements of each claim, and writes those of one that finds plans.
var (
	looks  = []string{"PlanLimitLock", "PlanLimitRoom", "PlanClaimDue", "PlanClaimQueue"}
	writes = []string{"PlanClaimLock", "PlanClaimLease", "PlanClaimStart", "PlanClaimNote", "PlanClaimHistory", "PlanClaimTell"}
)

// claimPlannedAgain is plannedAgain for the statements of a claim.
func claimPlannedAgain(t *testing.T, pool *pgxpool.Pool, found bool) (again string) {
	t.Helper()
	names := looks
	if found {
		names = slices.Concat(looks, writes)
	}
	for _, name := range names {
		again += plannedAgain(t, pool, name+" ")
	}
	return again
}

// A claim is planned once for all, as an append is, whatever is asked for: also if the
// first plans were for an empty queue, which are cheaper than any later one.
func TestClaimIsPlannedOnce(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	if pgtest.Value[int](t, pgtest.Connect(t, databaseURL), "SELECT current_setting('server_version_num')::int") < 140000 {
		t.Log("PostgreSQL 13 does not count plans, and shows the choice for a session's own setting only")
		return
	}
	for _, ask := range claimsOfManyKinds() {
		pool := pgtest.NewPool(t, databaseURL, planMode("auto"))
		store := pgtest.OpenPool(t, pool, agentstore.Options{})
		pgtest.Exec(t, pool, "TRUNCATE plan_queue, plan_claims, leases; ANALYZE")
		for range 10 {
			claim(t, store, ask)
		}
		queueMany(t, pool, "ns1", 10_000)
		pgtest.Exec(t, pool, "ANALYZE")
		found := 0
		for range 10 {
			found += len(claim(t, store, ask))
		}
		if again := claimPlannedAgain(t, pool, found > 0); again != "" {
			t.Fatalf("%s: %+v", again, ask)
		}
	}
}

// In a caller's transaction, whose settings stay as they are, too, as long as the server does
// not compare its plans anew. It may do so when its processes have missed some of what
// others have changed in their catalogs, as other tests do: hence the attempts.
func TestClaimInTransactionIsPlannedOnce(t *testing.T) {
	t.Parallel()
	databaseURL := newUnattended(t)
	for _, ask := range claimsOfManyKinds() {
		found := "not tried"
		for attempt := 0; attempt < 3 && found != ""; attempt++ {
			pool := pgtest.NewPool(t, databaseURL, planMode("auto"))
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			queueMany(t, tx, "ns1", 100)
			claimed := 0
			for range 10 {
				claimed += len(claim(t, postgres.Bind(tx), ask))
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			found = claimPlannedAgain(t, pool, claimed > 0)
		}
		if found != "" {
			t.Fatalf("%s: %+v", found, ask)
		}
	}
}

// claimedBlocks returns how many blocks of the tables of plans, and their indexes, a claim of one
// plan reads in a transaction that is rolled back.
func claimedBlocks(t *testing.T, pool *pgxpool.Pool, claim func(tx pgx.Tx) error) (blocks int64) {
	t.Helper()
	count := func(tx pgx.Tx) int64 {
		return pgtest.Value[int64](t, tx, `SELECT sum(pg_stat_get_xact_blocks_fetched(c.oid))::bigint FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid
			WHERE coalesce(i.indrelid, c.oid) IN ('plans'::regclass, 'plan_queue'::regclass, 'plan_claims'::regclass, 'leases'::regclass)`)
	}
	done := errors.New("done")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if err := claim(tx); err != nil { // also reads what planning needs
			return err
		}
		before := count(tx)
		if err := claim(tx); err != nil {
			return err
		}
		blocks = count(tx) - before
		return done
	})
	if !errors.Is(err, done) {
		t.Fatal(err)
	}
	return blocks
}

// However many plans are queued, a claim reads a few of them: with a plan for any arguments
// and for those of the call, and also if the tables have no statistics but of when they
// were empty.
// Guarantee: Claims: A claim reads a few blocks, however many plans are queued.
func TestClaimReadsFewBlocks(t *testing.T) {
	t.Parallel()
	const queued, namespaces = 30_000, 20
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "ANALYZE")
	queueMany(t, conn, "queue", queued)
	for _, namespace := range numbered("ns", namespaces) {
		queueMany(t, conn, namespace, 50)
	}
	const most = 1200 // in 3 phases of 4 priorities
	for _, statistics := range []string{"of empty tables", "current"} {
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			pool := pgtest.NewPool(t, databaseURL, planMode(mode))
			for name, ask := range map[string]repo.Claim{
				"any":        {Namespaces: []string{"queue"}},
				"action":     {Namespaces: []string{"queue"}, Phases: []repo.Phase{repo.PhaseStrategize}, Actions: []string{"claimed"}},
				"namespaces": {Namespaces: append(numbered("ns", namespaces), "queue")},
				"none":       {Namespaces: []string{"empty"}},
			} {
				ask.Owner = "worker"
				got := claimedBlocks(t, pool, func(tx pgx.Tx) error {
					claimed, err := postgres.Bind(tx).Plans().Claim(t.Context(), ask)
					if err == nil && len(claimed) != 1 && name != "none" {
						t.Errorf("%s: claimed %d", name, len(claimed))
					}
					return err
				})
				if got > most {
					t.Errorf("statistics %s, %s: a claim of %s reads %d blocks, more than %d", statistics, mode, name, got, most)
				}
			}
		}
		pgtest.Exec(t, conn, "ANALYZE")
	}
	pool := pgtest.NewPool(t, databaseURL)
	naive := claimedBlocks(t, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE plans SET state = 'processing', version = version + 1 WHERE id = (
			SELECT id FROM plans WHERE namespace = 'queue' AND state = 'queued' ORDER BY updated_at LIMIT 1 FOR UPDATE SKIP LOCKED)`)
		return err
	})
	if naive <= most {
		t.Errorf("a claim that sorts the queue reads %d blocks: the test would not notice it", naive)
	}
}

// A plan that the server made when nothing was queued, and keeps, reads the queue by its
// indexes.
func TestClaimPlannedWhenNothingWasQueued(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, pgtest.NewDatabase(t), planMode("force_generic_plan"))
	store := pgtest.OpenPool(t, pool, agentstore.Options{})
	pgtest.Exec(t, pool, "ANALYZE")
	if got := claim(t, store, repo.Claim{Owner: "worker"}); len(got) > 0 {
		t.Fatalf("claimed %+v", got)
	}
	text := strings.Join(slices.Concat(explainGeneric(t, pool, "PlanClaimDue"), explainGeneric(t, pool, "PlanClaimQueue")), "\n")
	if strings.Contains(text, "Seq Scan") {
		t.Errorf("the plan of an empty database reads whole tables:\n%s", text)
	}
	for _, index := range []string{
		"plan_queue_namespace_phase_priority_since_idx on plan_queue", "plan_queue_namespace_phase_action_name_priority_since_idx on plan_queue",
		"plan_claims_namespace_check_at_idx on plan_claims",
	} {
		if !strings.Contains(text, index) {
			t.Errorf("does not use %s:\n%s", index, text)
		}
	}
	if mode := pgtest.Value[string](t, pool, "SELECT current_setting('enable_seqscan')"); mode != "on" {
		t.Errorf("enable_seqscan is %s afterwards", mode)
	}
}

// explainGeneric returns the plan that the pool's only connection keeps for a prepared
// statement.
func explainGeneric(t *testing.T, pool *pgxpool.Pool, name string) (plan []string) {
	t.Helper()
	prepared := pgtest.Value[string](t, pool, "SELECT name FROM pg_prepared_statements WHERE statement LIKE '-- name: ' || $1 || ' :%'", name)
	parameters := pgtest.Value[int](t, pool, "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = $1", prepared)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		pgtest.Exec(t, tx, "SET LOCAL plan_cache_mode = force_generic_plan")
		rows, err := tx.Query(t.Context(), "EXPLAIN EXECUTE "+pgx.Identifier{prepared}.Sanitize()+"(NULL"+strings.Repeat(", NULL", parameters-1)+")",
			pgx.QueryExecModeSimpleProtocol)
		if err == nil {
			plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
