package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// leases implements repo.Leases.
type leases struct{ exec executor }

// leaseNamespace is that of all leases of a store.
const leaseNamespace = repo.DefaultNamespace

// Acquire sends its statement again if an answer was lost: whoever holds the lease by
// then is the same owner, or another one.
func (l *leases) Acquire(ctx context.Context, lease repo.NewLease) (repo.Lease, error) {
	lease, err := rules.NormalizeLease(lease)
	if err != nil {
		return repo.Lease{}, err
	}
	var found repo.Lease
	err = l.exec.writeByID(ctx, func(q db.DBTX) error {
		row, err := acquire(ctx, q, lease)
		if err != nil {
			return err
		}
		found = leaseOf(lease.Key, row)
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

// Renew finds no row if the lease is lost, which it stays: an earlier attempt that
// arrives late finds none either.
func (l *leases) Renew(ctx context.Context, lease repo.Lease, ttl time.Duration) (repo.Lease, error) {
	ttl, err := rules.NormalizeTTL(ttl)
	if checked := rules.CheckLease(lease); checked != nil {
		err = checked
	}
	if err != nil {
		return repo.Lease{}, err
	}
	locked := db.LeaseLockTokenParams{Namespace: leaseNamespace, Kind: lease.Key.Kind, Name: leaseName(lease.Key), Token: lease.Token}
	params := db.LeaseRenewParams{
		Namespace: locked.Namespace, Kind: locked.Kind, Name: locked.Name, Token: locked.Token, TtlSeconds: ttl.Seconds(),
	}
	row, err := ask(ctx, l.exec.writeByID, func(q db.DBTX) (db.LeaseRenewRow, error) {
		return conn.After(ctx, q,
			func(q db.DBTX) error { return queries.LeaseLockToken(ctx, q, locked) },
			func(q db.DBTX) (db.LeaseRenewRow, error) { return queries.LeaseRenew(ctx, q, params) })
	})
	if err != nil {
		return repo.Lease{}, conn.OrMissing(err, rules.LeaseLost(lease))
	}
	return leaseOf(lease.Key, db.LeaseGetRow(row)), nil
}

func (l *leases) Release(ctx context.Context, lease repo.Lease) error {
	if err := rules.CheckLease(lease); err != nil {
		return err
	}
	params := db.LeaseReleaseParams{Namespace: leaseNamespace, Kind: lease.Key.Kind, Name: leaseName(lease.Key), Token: lease.Token}
	_, err := l.release(ctx, l.exec.writeByID, func(q db.DBTX) (int64, error) { return queries.LeaseRelease(ctx, q, params) })
	return err
}

func (l *leases) ReleaseAll(ctx context.Context, owner string) (int64, error) {
	if err := rules.CheckLeaseOwner(owner); err != nil {
		return 0, err
	}
	return l.release(ctx, l.exec.write, func(q db.DBTX) (int64, error) {
		return queries.LeaseReleaseAll(ctx, q, leaseNamespace, owner)
	})
}

// release frees rows, and sweeps behind it. It does not in a caller's transaction, which
// would keep others from the keys of the rows that it removes.
func (l *leases) release(ctx context.Context, by way, release func(q db.DBTX) (int64, error)) (released int64, err error) {
	p := &conn.Pipeline{}
	p.Add(func(q db.DBTX) (err error) {
		released, err = release(q)
		return err
	})
	if _, sweeps := l.exec.(*pooled); sweeps {
		p.Add(func(q db.DBTX) error { return queries.LeaseSweep(ctx, q, leaseNamespace) })
	}
	err = by(ctx, func(q db.DBTX) error { return p.Send(ctx, q) })
	return released, err
}

func (l *leases) List(ctx context.Context, filter repo.LeaseFilter, page repo.Page) (repo.LeasePage, error) {
	list, err := rules.LeaseList(filter, page)
	if err != nil {
		return repo.LeasePage{}, err
	}
	params := db.LeaseListParams{
		Namespace: leaseNamespace, AfterKind: list.After.Kind, AfterName: leaseName(list.After),
		Owner: toNullable(filter.Owner), Kind: toNullable(filter.Kind),
		HasExpired: hasExpired(filter.Status),
		MaxRows:    int32(list.Limit) + 1, // one extra row tells whether there is a next page
	}
	if filter.Name != "" {
		name, id := leaseName(repo.LeaseKey{Kind: filter.Kind, Name: filter.Name}), uuidText(filter.Name)
		if filter.Kind != "" {
			params.Name = &name
		} else {
			params.ID, params.Text = &id, name
		}
	}
	rows, err := run(ctx, filtered(l.exec.read), queries.LeaseList, params)
	if err != nil {
		return repo.LeasePage{}, err
	}
	leases, next, err := rules.PageOf(list, rows, func(row db.LeaseListRow) (repo.Lease, error) {
		key, err := leaseKey(row.Kind, row.Name)
		lease := leaseOf(key, db.LeaseGetRow{Owner: row.Owner, Token: row.Token, AcquiredAt: row.AcquiredAt, ExpiresAt: row.ExpiresAt})
		lease.Expired = row.Expired
		if filter.Status != "" { // it was selected by an earlier reading of the clock
			lease.Expired = filter.Status == repo.LeaseExpired
		}
		return lease, err
	})
	return repo.LeasePage{Leases: leases, Next: next}, err
}

// hasExpired returns what "has expired" may be for a status.
func hasExpired(status repo.LeaseStatus) []bool {
	switch status {
	case repo.LeaseHeld:
		return []bool{false}
	case repo.LeaseExpired:
		return []bool{true}
	}
	return []bool{false, true}
}

// leaseName returns the name that a key has in the table: that of a session or a plan is
// its id as SQL writes it.
func leaseName(key repo.LeaseKey) string {
	if namesID(key.Kind) {
		return uuidText(key.Name)
	}
	return key.Name
}

// leaseKey is the inverse of leaseName.
func leaseKey(kind, name string) (repo.LeaseKey, error) {
	var id pgtype.UUID
	if namesID(kind) {
		if err := id.Scan(name); err != nil {
			return repo.LeaseKey{}, err
		}
		name = repo.ID(id.Bytes).String()
	}
	return repo.LeaseKey{Kind: kind, Name: name}, nil
}

func namesID(kind string) bool { return kind == repo.LeaseOfSession || kind == repo.LeaseOfPlan }

// uuidText returns what SQL writes for the id whose text name is, and "" if it is no id's.
func uuidText(name string) string {
	id, err := repo.ParseID(name)
	if err != nil || id.String() != name {
		return ""
	}
	return toUUID(id).String()
}

func leaseOf(key repo.LeaseKey, row db.LeaseGetRow) repo.Lease {
	return repo.Lease{Key: key, Owner: row.Owner, Token: row.Token, AcquiredAt: row.AcquiredAt.UTC(), ExpiresAt: row.ExpiresAt.UTC()}
}
