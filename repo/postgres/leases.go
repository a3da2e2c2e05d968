package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// leases implements repo.Leases.
type leases struct{ exec executor }

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
		found = leaseOf(lease.Key, db.LeaseRenewRow(row))
		if found.Owner != lease.Owner {
			return &answer{errNotMoved} // in doubt if an earlier attempt may arrive late
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
	row, err := run(ctx, l.exec.writeByID, queries.LeaseRenew, db.LeaseRenewParams{
		Name: lease.Key.Name, Kind: lease.Key.Kind, Token: lease.Token, TtlSeconds: ttl.Seconds(),
	})
	if err != nil {
		return repo.Lease{}, orMissing(err, rules.LeaseLost(lease))
	}
	return leaseOf(lease.Key, row), nil
}

func (l *leases) Release(ctx context.Context, lease repo.Lease) error {
	if err := rules.CheckLease(lease); err != nil {
		return err
	}
	_, err := run(ctx, l.exec.writeByID, queries.LeaseRelease, db.LeaseReleaseParams{
		Name: lease.Key.Name, Kind: lease.Key.Kind, Token: lease.Token,
	})
	return err
}

func (l *leases) ReleaseAll(ctx context.Context, owner string) (int64, error) {
	if err := rules.CheckLeaseOwner(owner); err != nil {
		return 0, err
	}
	return run(ctx, l.exec.write, queries.LeaseReleaseAll, owner)
}

func (l *leases) List(ctx context.Context, filter repo.LeaseFilter, page repo.Page) (repo.LeasePage, error) {
	list, err := rules.LeaseList(filter, page)
	if err != nil {
		return repo.LeasePage{}, err
	}
	rows, err := run(ctx, filtered(l.exec.read), queries.LeaseList, db.LeaseListParams{
		AfterName: list.After.Name, AfterKind: list.After.Kind,
		Name: toNullable(filter.Name), Owner: toNullable(filter.Owner), Kind: toNullable(filter.Kind),
		HasExpired: hasExpired(filter.Status),
		MaxRows:    int32(list.Limit) + 1, // one extra row tells whether there is a next page
	})
	if err != nil {
		return repo.LeasePage{}, err
	}
	leases, next, err := rules.PageOf(list, rows, func(row db.LeaseListRow) (repo.Lease, error) {
		lease := leaseOf(repo.LeaseKey{Kind: row.Kind, Name: row.Name}, db.LeaseRenewRow{
			Owner: row.Owner, Token: row.Token, AcquiredAt: row.AcquiredAt, ExpiresAt: row.ExpiresAt,
		})
		lease.Expired = row.Expired
		if filter.Status != "" { // it was selected by an earlier reading of the clock
			lease.Expired = filter.Status == repo.LeaseExpired
		}
		return lease, nil
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

func leaseOf(key repo.LeaseKey, row db.LeaseRenewRow) repo.Lease {
	return repo.Lease{Key: key, Owner: row.Owner, Token: row.Token, AcquiredAt: row.AcquiredAt.UTC(), ExpiresAt: row.ExpiresAt.UTC()}
}
