package rules

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// NormalizeLease checks what is asked for, and replaces defaults.
func NormalizeLease(l repo.NewLease) (repo.NewLease, error) {
	err := cmp.Or(checkLeaseKey(l.Key), checkOwner(l.Owner))
	if err == nil {
		l.TTL, err = NormalizeTTL(l.TTL)
	}
	l.Slots = cmp.Or(l.Slots, 1)
	longest := len(l.Key.Name) + len("#") + len(strconv.Itoa(l.Slots))
	return l, cmp.Or(
		err,
		invalidIf(l.Slots < 1 || l.Slots > limits.MaxLeaseSlots, "slots", "is not between 1 and %d", limits.MaxLeaseSlots),
		invalidIf(l.Slots > 1 && NamesID(l.Key), "slots", "is %d, but a %s has one lease", l.Slots, l.Key.Kind),
		invalidIf(l.Slots > 1 && longest > limits.MaxLeaseNameBytes, "key.name",
			"with the number of a slot is longer than %d bytes", limits.MaxLeaseNameBytes),
	)
}

// SlotsOf returns the keys of the leases of which one is asked for.
func SlotsOf(l repo.NewLease) []repo.LeaseKey {
	if l.Slots <= 1 {
		return []repo.LeaseKey{l.Key}
	}
	keys := make([]repo.LeaseKey, l.Slots)
	for i := range keys {
		keys[i] = repo.LeaseKey{Kind: l.Key.Kind, Name: l.Key.Name + "#" + strconv.Itoa(i+1)}
	}
	return keys
}

// WithoutSlot returns the name of a lease without the number of its slot, if it has one.
func WithoutSlot(name string) string {
	at := max(0, strings.LastIndexByte(name, '#'))
	if slot, err := strconv.Atoi(name[min(at+1, len(name)):]); err == nil && slot > 0 && slot <= limits.MaxLeaseSlots &&
		strconv.Itoa(slot) == name[at+1:] {
		return name[:at]
	}
	return name
}

// OpenSlots returns the slots that the owner may acquire: the one that it holds (owned), or else the free
// ones. held has the slots that are held. Errors: LeaseConflictError.
func OpenSlots(l repo.NewLease, held map[repo.LeaseKey]repo.Lease) (open []repo.LeaseKey, owned bool, err error) {
	var first *repo.Lease
	for _, key := range SlotsOf(l) {
		switch by, is := held[key]; {
		case !is:
			open = append(open, key)
		case by.Owner == l.Owner:
			return []repo.LeaseKey{key}, true, nil
		case first == nil || by.ExpiresAt.Before(first.ExpiresAt):
			first = &by
		}
	}
	if len(open) == 0 {
		return nil, false, LeaseConflict(*first)
	}
	return open, false, nil
}

// NormalizeTTL checks how long a lease is to last, and replaces zero by the default.
func NormalizeTTL(ttl time.Duration) (time.Duration, error) {
	ttl = cmp.Or(ttl, limits.DefaultLeaseTTL).Truncate(time.Microsecond)
	return ttl, invalidIf(ttl < repo.MinLeaseTTL || ttl > repo.MaxLeaseTTL, "ttl", "is not between %v and %v",
		repo.MinLeaseTTL, repo.MaxLeaseTTL)
}

// CheckLease checks a lease that is to be renewed or released.
func CheckLease(l repo.Lease) error {
	return cmp.Or(checkLeaseKey(l.Key), invalidIf(l.Fence < 1, "fence", "is not one of a lease"))
}

// CheckLeaseOwner checks the owner whose leases are to be released.
func CheckLeaseOwner(owner string) error { return checkOwner(owner) }

// NamesID reports whether a key is a session's or a plan's, and its name the id. All views share it.
func NamesID(key repo.LeaseKey) bool {
	return key.Kind == repo.LeaseOfSession || key.Kind == repo.LeaseOfPlan
}

func checkLeaseKey(key repo.LeaseKey) error {
	err := cmp.Or(
		invalidIf(key.Kind == "", "key.kind", "is empty"),
		checkNames(name{"key.kind", key.Kind}),
		invalidIf(key.Name == "", "key.name", "is empty"),
		checkText("key.name", key.Name, limits.MaxLeaseNameBytes),
	)
	if err == nil && NamesID(key) {
		// Another spelling would be another key.
		id, parseErr := repo.ParseID(key.Name)
		err = invalidIf(parseErr != nil || id.String() != key.Name, "key.name",
			"is not the text of an id, as ID.String returns it")
	}
	return err
}

func checkOwner(owner string) error {
	return cmp.Or(invalidIf(owner == "", "owner", "is empty"), checkText("owner", owner, limits.MaxUserIDBytes))
}

// AcquiredLease returns the lease as it is after l was asked for at now. stored is what
// the key has; nil: nothing. newFence makes a fence. Errors: LeaseConflictError.
func AcquiredLease(l repo.NewLease, stored *repo.Lease, now time.Time, newFence func() int64) (repo.Lease, error) {
	expiresAt := now.Add(l.TTL)
	switch {
	case stored == nil || !stored.ExpiresAt.After(now):
		return repo.Lease{Key: l.Key, Owner: l.Owner, Fence: newFence(), AcquiredAt: now, ExpiresAt: expiresAt}, nil
	case stored.Owner != l.Owner:
		return repo.Lease{}, LeaseConflict(*stored)
	}
	return prolonged(*stored, expiresAt), nil
}

// RenewedLease returns the lease l, renewed at now. stored is what the key has; nil:
// nothing. Errors: LeaseLostError.
func RenewedLease(l repo.Lease, stored *repo.Lease, now time.Time, ttl time.Duration) (repo.Lease, error) {
	if stored == nil || stored.Fence != l.Fence || !stored.ExpiresAt.After(now) {
		return repo.Lease{}, LeaseLost(l)
	}
	return prolonged(*stored, now.Add(ttl)), nil
}

// prolonged never shortens a lease: its owner may have another holder, which counts
// on what was promised.
func prolonged(l repo.Lease, expiresAt time.Time) repo.Lease {
	l.ExpiresAt = slices.MaxFunc([]time.Time{l.ExpiresAt, expiresAt}, time.Time.Compare)
	return l
}

// LeaseConflict returns the error of a lease that another owner holds.
func LeaseConflict(held repo.Lease) error {
	return &repo.LeaseConflictError{Key: held.Key, Holder: held.Owner, Fence: held.Fence, ExpiresAt: held.ExpiresAt}
}

// LeaseLost returns the error of a lease that its holder has lost.
func LeaseLost(l repo.Lease) error {
	return &repo.LeaseLostError{Key: l.Key, Owner: l.Owner, Fence: l.Fence}
}

// LeaseList checks a page of leases, which are ordered by the bytes of their kinds, then
// names. A view's leases are other lists.
func LeaseList(view string, f repo.LeaseFilter, page repo.Page) (list List[repo.LeaseFilter, repo.LeaseKey, repo.Lease],
	err error,
) {
	err = cmp.Or(
		checkNames(name{"kind", f.Kind}),
		checkText("name", f.Name, limits.MaxLeaseNameBytes),
		checkText("owner", f.Owner, limits.MaxUserIDBytes),
		invalidIf(f.Held && f.Expired, "expired", "is set together with held"),
	)
	placeOf := func(last repo.Lease) repo.LeaseKey { return last.Key }
	return newList(err, f, page, repo.LeaseKey{}, placeOf,
		InView(view, "leases"), f.Kind, f.Name, f.Owner, strconv.FormatBool(f.Held), strconv.FormatBool(f.Expired))
}

// CompareLeases orders keys as lists do.
func CompareLeases(a, b repo.LeaseKey) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

// SelectsLease reports whether a filter selects a lease, whose Expired is set.
func SelectsLease(f repo.LeaseFilter, l repo.Lease) bool {
	return (f.Kind == "" || f.Kind == l.Key.Kind) && (f.Name == "" || f.Name == l.Key.Name) &&
		(f.Owner == "" || f.Owner == l.Owner) &&
		(!f.Held || !l.Expired) && (!f.Expired || l.Expired)
}

// Fence is what a session or plan knows of its lease.
type Fence struct {
	Key repo.LeaseKey
	// Latest is the latest fence.
	Latest int64
	// Only: a write needs a fence.
	Only bool
}

// Check returns the error of a write with a fence, or nil. Zero: it has none. A fence that
// is larger than Latest may have been given before the session or plan was made. So before
// it is refused, a store looks at the lease: if that has a larger one than Latest, it
// becomes the latest. Any other is of no lease of this key. Errors: FencedError.
func (f Fence) Check(fence int64) error {
	if fence == f.Latest && fence != 0 || fence == 0 && !f.Only {
		return nil
	}
	return &repo.FencedError{Key: f.Key, Fence: fence, Latest: f.Latest}
}

// checkFence checks the fence of a write.
func checkFence(fence int64) error { return invalidIf(fence < 0, "fence", "is negative") }
