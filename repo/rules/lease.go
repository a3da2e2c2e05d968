package rules

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// NormalizeLease checks what is asked for, and replaces defaults.
func NormalizeLease(l repo.NewLease) (repo.NewLease, error) {
	err := cmp.Or(checkLeaseKey(l.Key), checkOwner(l.Owner))
	if err == nil {
		l.TTL, err = NormalizeTTL(l.TTL)
	}
	return l, err
}

// NormalizeTTL checks how long a lease is to last, and replaces zero by the default.
func NormalizeTTL(ttl time.Duration) (time.Duration, error) {
	ttl = cmp.Or(ttl, repo.DefaultLeaseTTL).Truncate(time.Microsecond)
	if ttl < repo.MinLeaseTTL || ttl > repo.MaxLeaseTTL {
		return 0, invalid("ttl", "is not between %v and %v", repo.MinLeaseTTL, repo.MaxLeaseTTL)
	}
	return ttl, nil
}

// CheckLease checks a lease that is to be renewed or released.
func CheckLease(l repo.Lease) error {
	return cmp.Or(checkLeaseKey(l.Key), invalidIf(l.Token < 1, "token", "is not one of a lease"))
}

// CheckLeaseOwner checks the owner whose leases are to be released.
func CheckLeaseOwner(owner string) error { return checkOwner(owner) }

func checkLeaseKey(key repo.LeaseKey) error {
	err := cmp.Or(
		invalidIf(key.Kind == "", "key.kind", "is empty"),
		checkNames(name{"key.kind", key.Kind}),
		invalidIf(key.Name == "", "key.name", "is empty"),
		checkText("key.name", key.Name, repo.MaxLeaseNameBytes),
	)
	if err == nil && (key.Kind == repo.LeaseOfSession || key.Kind == repo.LeaseOfPlan) {
		// Another spelling would be another key.
		id, parseErr := repo.ParseID(key.Name)
		err = invalidIf(parseErr != nil || id.String() != key.Name, "key.name", "is not the text of an id, as ID.String returns it")
	}
	return err
}

func checkOwner(owner string) error {
	return cmp.Or(invalidIf(owner == "", "owner", "is empty"), checkText("owner", owner, repo.MaxUserIDBytes))
}

// AcquiredLease returns the lease as it is after l was asked for at now. stored is what
// the key has; nil: nothing. newToken makes a token. Errors: LeaseConflictError.
func AcquiredLease(l repo.NewLease, stored *repo.Lease, now time.Time, newToken func() int64) (repo.Lease, error) {
	expiresAt := now.Add(l.TTL)
	switch {
	case stored == nil || !stored.ExpiresAt.After(now):
		return repo.Lease{Key: l.Key, Owner: l.Owner, Token: newToken(), AcquiredAt: now, ExpiresAt: expiresAt}, nil
	case stored.Owner != l.Owner:
		return repo.Lease{}, LeaseConflict(*stored)
	}
	return prolonged(*stored, expiresAt), nil
}

// RenewedLease returns the lease l, renewed at now. stored is what the key has; nil:
// nothing. Errors: LeaseLostError.
func RenewedLease(l repo.Lease, stored *repo.Lease, now time.Time, ttl time.Duration) (repo.Lease, error) {
	if stored == nil || stored.Token != l.Token || !stored.ExpiresAt.After(now) {
		return repo.Lease{}, LeaseLost(l)
	}
	return prolonged(*stored, now.Add(ttl)), nil
}

// prolonged never shortens a lease: its owner may have another holder, who counts on
// what was promised.
func prolonged(l repo.Lease, expiresAt time.Time) repo.Lease {
	if expiresAt.After(l.ExpiresAt) {
		l.ExpiresAt = expiresAt
	}
	return l
}

// LeaseConflict returns the error of a lease that somebody else holds.
func LeaseConflict(held repo.Lease) error {
	return &repo.LeaseConflictError{Key: held.Key, Holder: held.Owner, Token: held.Token, ExpiresAt: held.ExpiresAt}
}

// LeaseLost returns the error of a lease that its holder has lost.
func LeaseLost(l repo.Lease) error {
	return &repo.LeaseLostError{Key: l.Key, Owner: l.Owner, Token: l.Token}
}

// LeaseList checks a page of leases, which are ordered by the bytes of their kinds, then
// names.
func LeaseList(f repo.LeaseFilter, page repo.Page) (list List[repo.LeaseFilter, repo.LeaseKey, repo.Lease], err error) {
	err = cmp.Or(
		checkNames(name{"kind", f.Kind}),
		checkText("name", f.Name, repo.MaxLeaseNameBytes),
		checkText("owner", f.Owner, repo.MaxUserIDBytes),
	)
	if err != nil {
		return list, err
	}
	switch f.Status {
	case "", repo.LeaseHeld, repo.LeaseExpired:
	default:
		return list, invalid("status", "is not held or expired")
	}
	placeOf := func(last repo.Lease) repo.LeaseKey { return last.Key }
	return newList(f, page, repo.LeaseKey{}, placeOf, leaseKeys, "leases", f.Kind, f.Name, f.Owner, string(f.Status))
}

var errForeignCursor = errors.New("is not a cursor that a page returned")

// leaseKeys encodes a key as its name and its kind, neither of which has a NUL.
var leaseKeys = codec[repo.LeaseKey]{
	encode: func(key repo.LeaseKey, list ...string) string { return texts.encode(key.Name+"\x00"+key.Kind, list...) },
	decode: func(text string, list ...string) (repo.LeaseKey, error) {
		place, err := texts.decode(text, list...)
		name, kind, _ := strings.Cut(place, "\x00")
		if err == nil && cmp.Or(checkText("", name, repo.MaxLeaseNameBytes), checkText("", kind, repo.MaxNameBytes)) != nil {
			err = errForeignCursor
		}
		return repo.LeaseKey{Kind: kind, Name: name}, err
	},
}

// CompareLeases orders keys as lists do.
func CompareLeases(a, b repo.LeaseKey) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

// SelectsLease reports whether a filter selects a lease, whose Expired is set.
func SelectsLease(f repo.LeaseFilter, l repo.Lease) bool {
	return (f.Kind == "" || f.Kind == l.Key.Kind) &&
		(f.Name == "" || f.Name == l.Key.Name) &&
		(f.Owner == "" || f.Owner == l.Owner) &&
		(f.Status == "" || (f.Status == repo.LeaseExpired) == l.Expired)
}
