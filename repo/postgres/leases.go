package postgres

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// leases implements repo.Leases.
type leases struct{ base }

// in returns a key as what is shared by views knows it.
func (l *leases) in(key repo.LeaseKey) repo.LeaseKey {
	if !namesID(key.Kind) {
		key.Name = rules.InView(l.view, key.Name)
	}
	return key
}

// enter returns a key as what is shared by views knows it. It checks that the session or plan is in the view whose
// lease it is. So it must exist: the lease of an unused id would belong to the session or plan that gets it.
func (l *leases) enter(ctx context.Context, key repo.LeaseKey, checked error) (repo.LeaseKey, error) {
	id, _ := repo.ParseID(key.Name)
	switch key.Kind {
	case repo.LeaseOfSession:
		checked = l.checkSession(ctx, id, checked)
	case repo.LeaseOfPlan:
		checked = l.checkPlan(ctx, id, checked)
	}
	return l.in(key), checked
}

// outOfView returns a lease, or an error, with the key that the view knows.
func outOfView(lease repo.Lease, err error) (repo.Lease, error) {
	lease.Key.Name = rules.OutOfView(lease.Key.Name)
	return lease, rules.ErrorOutOfView(err)
}

// leaseRow returns the namespace and the name that such a key has in the table.
func leaseRow(key repo.LeaseKey) (namespace, name string) { return rules.SplitView(key.Name) }

// Acquire implements repo.Leases.
func (l *leases) Acquire(ctx context.Context, lease repo.NewLease) (repo.Lease, error) {
	lease, err := rules.NormalizeLease(lease)
	switch lease.Key, err = l.enter(ctx, lease.Key, err); {
	case err != nil:
		return repo.Lease{}, err
	case lease.Wait:
		return outOfView(l.acquireOrWait(ctx, lease))
	}
	return outOfView(l.acquireAny(ctx, lease))
}

// acquireAny acquires a lease, or one of its slots. The open ones are tried in a random order: others
// try them, too.
func (l *leases) acquireAny(ctx context.Context, lease repo.NewLease) (acquired repo.Lease, err error) {
	if lease.Slots == 1 {
		return l.acquire(ctx, lease)
	}
	open, _, err := l.openSlots(ctx, lease)
	for _, i := range rand.Perm(len(open)) {
		lease.Key = open[i]
		if acquired, err = l.acquire(ctx, lease); !errors.Is(err, repo.ErrConflict) {
			return acquired, err
		}
	}
	return repo.Lease{}, err
}

func (l *leases) openSlots(ctx context.Context, lease repo.NewLease) (open []repo.LeaseKey, owned bool, err error) {
	params := db.LeaseListHeldParams{Kind: lease.Key.Kind}
	for _, key := range rules.SlotsOf(lease) {
		var name string
		params.Namespace, name = leaseRow(key)
		params.Names = append(params.Names, name)
	}
	rows, err := run(ctx, l.exec.read, queries.LeaseListHeld, params)
	if err != nil {
		return nil, false, err
	}
	held := make(map[repo.LeaseKey]repo.Lease, len(rows))
	for _, row := range rows {
		key := l.in(repo.LeaseKey{Kind: lease.Key.Kind, Name: row.Name})
		held[key] = convert.Lease(key, db.LeaseGetRow{
			Owner: row.Owner, Fence: row.Fence, AcquiredAt: row.AcquiredAt,
			ExpiresAt: row.ExpiresAt,
		})
	}
	return rules.OpenSlots(lease, held)
}

// acquire sends its statement again if an answer was lost: the holder by then is the
// same owner, or another one.
func (l *leases) acquire(ctx context.Context, lease repo.NewLease) (repo.Lease, error) {
	var found repo.Lease
	err := l.exec.writeByID(ctx, func(q db.DBTX) error {
		row, err := acquire(ctx, q, lease)
		if err != nil {
			return err
		}
		found = convert.Lease(lease.Key, row)
		if found.Owner != lease.Owner {
			return &conn.Answer{Err: errNotMoved} // in doubt if an earlier attempt may arrive late
		}
		return nil
	})
	switch {
	case errors.Is(err, errNotMoved) && !errors.Is(err, repo.ErrUnknownOutcome):
		return repo.Lease{}, rules.LeaseConflict(found)
	case err != nil:
		return repo.Lease{}, err
	}
	return found, nil
}

func (l *leases) Renew(ctx context.Context, lease repo.Lease, ttl time.Duration) (repo.Lease, error) {
	ttl, err := rules.NormalizeTTL(ttl)
	if checked := rules.CheckLease(lease); checked != nil {
		err = checked
	}
	if lease.Key, err = l.enter(ctx, lease.Key, err); err != nil {
		return repo.Lease{}, err
	}
	return outOfView(l.renew(ctx, lease, ttl))
}

// renew renews a lease with others, or, if it is locked or lost, alone. That finds no row if the lease is lost, which
// it stays: an earlier attempt that arrives late finds none either.
func (l *leases) renew(ctx context.Context, lease repo.Lease, ttl time.Duration) (repo.Lease, error) {
	if pool, ok := l.exec.(*pooled); ok {
		together := &renewing{lease: lease, ttl: ttl}
		if settled, err := pool.renewTogether(ctx, together); settled {
			if err != nil {
				return repo.Lease{}, err
			}
			return together.renewed(), nil
		}
	}
	alone, params := &renewing{lease: lease, ttl: ttl}, db.LeaseRenewParams{}
	alone.addTo(&params, pgtype.TID{})
	lock := db.LeaseLockFenceParams{
		Namespace: params.Namespaces[0], Kind: lease.Key.Kind, Name: params.Names[0], Fence: lease.Fence,
	}
	rows, err := ask(ctx, l.exec.writeByID, func(q db.DBTX) ([]db.LeaseRenewRow, error) {
		return conn.After(ctx, q,
			func(q db.DBTX) error { return queries.LeaseLockFence(ctx, q, lock) },
			func(q db.DBTX) ([]db.LeaseRenewRow, error) { return queries.LeaseRenew(ctx, q, params) })
	})
	switch {
	case err != nil:
		return repo.Lease{}, err
	case len(rows) == 0:
		return repo.Lease{}, rules.LeaseLost(lease)
	}
	alone.row = &rows[0]
	return alone.renewed(), nil
}

func (l *leases) Release(ctx context.Context, lease repo.Lease) error {
	var err error
	if lease.Key, err = l.enter(ctx, lease.Key, rules.CheckLease(lease)); err != nil {
		return err
	}
	namespace, name := leaseRow(lease.Key)
	params := db.LeaseReleaseParams{Namespace: namespace, Kind: lease.Key.Kind, Name: name, Fence: lease.Fence}
	var released int64
	p := &conn.Pipeline{}
	conn.Ask(ctx, p, &released, queries.LeaseRelease, params)
	err = l.release(ctx, l.exec.writeByID, p)
	if released > 0 {
		l.exec.changed(freed(lease.Key)...)
	}
	return err
}

func (l *leases) ReleaseAll(ctx context.Context, owner string) (released int64, err error) {
	if err := rules.CheckLeaseOwner(owner); err != nil {
		return 0, err
	}
	params := db.LeaseReleaseAllParams{
		Namespaces: []string{convert.LeaseNamespace}, Owner: owner,
		View: convert.Nullable(l.view),
	}
	if l.view != "" && l.view != convert.LeaseNamespace {
		params.Namespaces = append(params.Namespaces, l.view)
	}
	var rows []db.LeaseReleaseAllRow
	p := &conn.Pipeline{}
	conn.Ask(ctx, p, &rows, queries.LeaseReleaseAll, params)
	err = l.release(ctx, l.exec.write, p)
	for _, row := range rows {
		released = row.Released
		l.exec.changed(freed(l.in(repo.LeaseKey{Kind: row.Kind, Name: row.Name}))...)
	}
	return released, err
}

// release frees rows, and sweeps behind that. It does not in a caller's transaction, which
// would keep others from the keys of the rows that it removes.
func (l *leases) release(ctx context.Context, by way, p *conn.Pipeline) error {
	if _, sweeps := l.exec.(*pooled); sweeps {
		conn.Do(ctx, p, queries.LeaseSweep, cmp.Or(l.view, convert.LeaseNamespace))
	}
	return by(ctx, func(q db.DBTX) error { return p.Send(ctx, q) })
}

func (l *leases) List(ctx context.Context, filter repo.LeaseFilter, page repo.Page) (repo.List[repo.Lease], error) {
	list, err := rules.LeaseList(l.view, filter, page)
	params := db.LeaseListParams{
		Namespace: convert.LeaseNamespace, AfterKind: list.After.Kind, AfterName: list.After.Name,
		Owner: convert.Nullable(filter.Owner), Kind: convert.Nullable(filter.Kind), Name: convert.Nullable(filter.Name),
		HasExpired: hasExpired(filter), View: convert.Nullable(l.view),
		MaxRows: int32(list.Limit) + 1, // one extra row tells whether there is a next page
	}
	read := func(by way) ([]db.LeaseListRow, error) { return l.list(ctx, by, params) }
	return listed(l.exec.read, list, err, read, func(row db.LeaseListRow) (repo.Lease, error) {
		lease := convert.Lease(repo.LeaseKey{Kind: row.Kind, Name: row.Name}, db.LeaseGetRow{
			Owner: row.Owner, Fence: row.Fence, AcquiredAt: row.AcquiredAt, ExpiresAt: row.ExpiresAt,
		})
		lease.Expired = row.Expired
		if filter.Held || filter.Expired { // it was selected by an earlier reading of the clock
			lease.Expired = filter.Expired
		}
		return lease, nil
	})
}

// list returns the rows of a page. A view's leases are in up to two namespaces.
func (l *leases) list(ctx context.Context, by way, params db.LeaseListParams) (rows []db.LeaseListRow, err error) {
	if l.view == "" {
		return run(ctx, filtered(by), queries.LeaseList, params)
	}
	type part struct {
		namespace string
		kind      *string
	}
	plan, session := repo.LeaseOfPlan, repo.LeaseOfSession
	parts := []part{{l.view, params.Kind}}
	switch {
	case l.view == convert.LeaseNamespace:
	case params.Kind == nil:
		parts = append(parts, part{convert.LeaseNamespace, &plan}, part{convert.LeaseNamespace, &session})
	case namesID(*params.Kind):
		parts[0].namespace = convert.LeaseNamespace
	}
	for _, p := range parts {
		params.Namespace, params.Kind = p.namespace, p.kind
		found, err := run(ctx, filtered(by), queries.LeaseList, params)
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	slices.SortFunc(rows, func(a, b db.LeaseListRow) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return rows[:min(len(rows), int(params.MaxRows))], nil
}

// hasExpired returns what "has expired" may be.
func hasExpired(filter repo.LeaseFilter) []bool {
	if filter.Held || filter.Expired {
		return []bool{filter.Expired}
	}
	return []bool{false, true}
}

func namesID(kind string) bool { return kind == repo.LeaseOfSession || kind == repo.LeaseOfPlan }
