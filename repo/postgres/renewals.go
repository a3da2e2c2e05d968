package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/commit"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/hints"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// A lease must be renewed in time, also while the holders' transactions have all connections of the
// pool. So renewals have one of their own, outside of the pool (and another one while that does not
// answer, or there are very many). It is made like the pool's at the first renewal, and closed when
// none was needed for renewerIdle. All that are due at a time are one statement. What that does not
// settle, its caller does by the pool.

// renewing is a renewal that is under way.
type renewing struct {
	commit.Progress

	lease repo.Lease
	ttl   time.Duration
	// row is nil if the group has not renewed the lease: it is locked, or lost.
	row *db.LeaseRenewRow
}

// addTo adds the renewal to the arguments of its statement.
func (r *renewing) addTo(params *db.LeaseRenewParams, hint pgtype.TID) {
	namespace, name := leaseRow(r.lease.Key)
	params.Namespaces, params.Kinds = append(params.Namespaces, namespace), append(params.Kinds, r.lease.Key.Kind)
	params.Names, params.Fences = append(params.Names, name), append(params.Fences, r.lease.Fence)
	params.TtlsSeconds, params.Hints = append(params.TtlsSeconds, r.ttl.Seconds()), append(params.Hints, hint)
}

// renewed returns the lease as its row has it.
func (r *renewing) renewed() repo.Lease {
	return convert.Lease(r.lease.Key, db.LeaseGetRow{
		Owner: r.row.Owner, Fence: r.row.Fence, AcquiredAt: r.row.AcquiredAt, ExpiresAt: r.row.ExpiresAt,
	})
}

// Size implements commit.Item.
func (r *renewing) Size() scheduler.Size {
	return scheduler.Size{Rows: 1, Bytes: len(r.lease.Key.Kind) + len(r.lease.Key.Name)}
}

type (
	renewGroup = commit.Group[repo.LeaseKey, *renewing]
	renewTask  = commit.Task[repo.LeaseKey, *renewing]
)

// renewer renews leases in groups.
type renewer struct {
	*commit.Committer[repo.LeaseKey, *renewing]

	hints hints.Hints[repo.LeaseKey]

	beside *pgxpool.Pool // the pool beside the pool
	err    error         // why there is none
}

const (
	// renewerIdle is after how long without a renewal the connection is closed.
	renewerIdle = time.Minute
	// renewTimeout bounds a statement, so that a lost answer holds up no renewal for long: a life
	// may be five seconds.
	renewTimeout = 1500 * time.Millisecond
)

var renewLimits = scheduler.Limits{
	GroupRows: 1000, GroupBytes: 1 << 20, ShareRows: 1, Items: 1 << 16, Rows: 1 << 16, Bytes: 256 << 20, Callers: 1 << 16,
}

func newRenewer(p *pooled) *renewer {
	r := &renewer{}
	config := p.conns.Pool.Config()
	config.MaxConns, config.MinConns, config.MinIdleConns, config.MaxConnIdleTime = 2, 0, 0, renewerIdle
	if r.beside, r.err = pgxpool.NewWithConfig(context.Background(), config); r.err != nil {
		return r
	}
	beside := p.conns
	beside.Pool = r.beside
	budget := commit.NewBudget(beside)
	r.Committer = commit.New(budget, commit.Config[repo.LeaseKey, *renewing]{
		Kind: "renew", Limits: renewLimits, Once: true, Commit: func(g *renewGroup) {
			g.Run(g.Tasks, (&renewals{
				g,
				&r.hints,
			}).send)
		},
	})
	return r
}

// Close waits for the groups under way, and closes the connection.
func (r *renewer) Close() {
	if r.err == nil {
		r.Committer.Close()
		r.beside.Close()
	}
}

// renewals are a group's.
type renewals struct {
	*renewGroup

	hints *hints.Hints[repo.LeaseKey]
}

// send renews the leases that are held and unlocked.
func (g *renewals) send(ctx context.Context, q db.DBTX, tasks []*renewTask) (func(), func(*renewTask) bool, error) {
	var params db.LeaseRenewParams
	for _, t := range tasks {
		t.Item.addTo(&params, g.hints.Of(t.Item.lease.Key))
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	rows, err := conn.After(ctx, q,
		func(q db.DBTX) error { return queries.PlanByIndex(ctx, q) },
		func(q db.DBTX) ([]db.LeaseRenewRow, error) { return queries.LeaseRenew(ctx, q, params) })
	return func() {
		for i := range rows {
			renewed := tasks[rows[i].Place-1].Item
			renewed.row = &rows[i]
			g.hints.Learn(hints.Place[repo.LeaseKey]{Key: renewed.lease.Key, Hint: rows[i].Hint})
		}
		g.Made(tasks...)
	}, nil, err
}

// renewTogether renews a lease with others. It returns false if that has not settled it: it is
// locked, or lost, or the connection beside the pool's does not answer, or there is none.
func (p *pooled) renewTogether(ctx context.Context, one *renewing) (settled bool, err error) {
	err = p.submitted(ctx, "renew", one, func() error {
		r := committerOf(p, newRenewer)
		if r.err != nil {
			return &conn.Error{Sentinel: repo.ErrUnavailable, Cause: r.err}
		}
		return r.Submit(ctx, one.lease.Key, one)
	})
	if err != nil {
		lone := errors.Is(err, repo.ErrUnavailable) || errors.Is(err, repo.ErrUnknownOutcome)
		return !lone || ctx.Err() != nil, err
	}
	return one.row != nil, nil
}
