package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The suite runs in each mode that users may choose, each on a database of its own,
// which the subtests share. A pool has all of it. The other modes have the groups in which
// they make a difference, and the rest in a full run.

// opener opens stores on one database, and checks all of their transactions.
func opener(t *testing.T, databaseURL string) func(t *testing.T) repo.Store {
	t.Helper()
	return pgtest.Opener(t, databaseURL, agentstore.Options{Tracer: isolated{t}, MaxConns: 16})
}

func TestConformanceOfPool(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	repotest.Run(t, opener(t, databaseURL), pgtest.Races(), pgtest.Elapse(databaseURL))
}

// InTx has the repositories of Bind, and notes besides what is to be announced.
func TestConformanceInTx(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	repotest.RunRepositories(t, repotest.InTx(opener(t, databaseURL)),
		append(pgtest.Parts("Append", "Turns", "Use", "Claims", "Streams", "PlanEnds"), pgtest.Elapse(databaseURL))...)
}

func TestConformanceOfBind(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	pool := pgtest.NewPool(t, databaseURL)
	repotest.RunRepositories(t, func(t *testing.T) repo.Repositories { return bindTx(t, pool) },
		append(pgtest.Parts("Sessions", "List", "Deletion", "History", "Messages", "Usage", "Actions", "Plans", "Lifecycle", "PlanEnds", "State", "Leases", "Audit"),
			pgtest.Elapse(databaseURL))...)
}

// What a distributed engine is sent (package tests/citus) means the same on one server.
func TestConformanceOfPlainStatements(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	pool := pgtest.NewPool(t, databaseURL, func(config *pgxpool.Config) { config.MaxConns = 16 })
	repotest.Run(t, func(t *testing.T) repo.Store {
		t.Helper()
		return plainStore(t, pool)
	}, append(pgtest.Parts("Append", "Turns", "Streams", "StreamsRaces", "Leases", "LeaseRaces", "Claims", "ClaimRaces", "PlanEnds"),
		pgtest.Elapse(databaseURL))...)
}

// beginner is a pool with any configuration.
type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

func bindTx(t *testing.T, pool beginner) repo.Repositories {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Rollback: %v", err)
		}
	})
	return postgres.Bind(tx)
}

// The exec mode of pgx that differs most from its default, cache_statement. Stores have it in
// TestConformanceUnderSettings, and the matrix has the others.
// See https://pkg.go.dev/github.com/jackc/pgx/v5#QueryExecMode.
func TestConformanceOfBindInSimpleProtocol(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, pgtest.WithParameter(pgtest.NewDatabase(t), "default_query_exec_mode", "simple_protocol"))
	repotest.RunRepositories(t, func(t *testing.T) repo.Repositories { return bindTx(t, pool) },
		pgtest.Parts("Append", "Messages", "Values", "State", "Plans", "Fences", "Audit")...)
}
