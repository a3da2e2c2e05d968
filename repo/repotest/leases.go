package repotest

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

func leaseTests() []test {
	return []test{
		onPlans("Acquire", testLeaseAcquire),
		onPlans("Reentrant", testLeaseReentrant),
		onPlans("Conflict", testLeaseConflict),
		onPlans("Renew", testLeaseRenew),
		onPlans("Release", testLeaseRelease),
		onPlans("ReleaseAll", testLeaseReleaseAll),
		onPlans("Tokens", testLeaseTokens),
		onPlans("List", testLeaseList),
		onPlans("ListPages", testLeaseListPages),
		onPlans("Keys", testLeaseKeys),
		onPlans("Invalid", testLeaseInvalid),
	}
}

// newLease asks for a lease that no other test asks for.
func newLease() repo.NewLease {
	return repo.NewLease{Key: repo.LeaseKey{Kind: "project", Name: randomName()}, Owner: randomName(), TTL: time.Hour}
}

// ofAnother asks for the same lease for another owner.
func ofAnother(lease repo.NewLease) repo.NewLease {
	lease.Owner = randomName()
	return lease
}

// acquire acquires a lease, which lives for an hour unless that is said otherwise.
func acquire(t *testing.T, r repo.Repositories, lease repo.NewLease) repo.Lease {
	t.Helper()
	lease.TTL = cmp.Or(lease.TTL, time.Hour)
	acquired, err := r.Leases().Acquire(t.Context(), lease)
	return must(t, acquired, err)
}

func release(t *testing.T, r repo.Repositories, lease repo.Lease) {
	t.Helper()
	if err := r.Leases().Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
}

// listLeases reads a list to its end.
func listLeases(t *testing.T, r repo.Repositories, filter repo.LeaseFilter, limit int) []repo.Lease {
	t.Helper()
	var all []repo.Lease
	for page := (repo.Page{Limit: limit}); ; {
		got, err := r.Leases().List(t.Context(), filter, page)
		if must(t, got, err); limit > 0 && len(got.Items) > limit {
			t.Fatalf("a page has %d leases, the limit is %d", len(got.Items), limit)
		}
		all = append(all, got.Items...)
		if got.Next == "" {
			return all
		}
		page.After = got.Next
	}
}

func wantLeaseConflict(t *testing.T, err error, held repo.Lease) {
	t.Helper()
	if got, ok := wantError[*repo.LeaseConflictError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, repo.LeaseConflictError{Key: held.Key, Holder: held.Owner, Fence: held.Fence, ExpiresAt: held.ExpiresAt})
	}
}

func wantLeaseLost(t *testing.T, err error, lease repo.Lease) {
	t.Helper()
	if got, ok := wantError[*repo.LeaseLostError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, repo.LeaseLostError{Key: lease.Key, Owner: lease.Owner, Fence: lease.Fence})
	}
}

// wantLife checks how long a lease lasts from its acquisition, which was asked for after begun: ttl from then, or from a
// renewal since.
func wantLife(t *testing.T, lease repo.Lease, begun time.Time, ttl time.Duration) {
	t.Helper()
	took := time.Since(begun) + time.Minute // clocks differ a little
	if got := lease.ExpiresAt.Sub(lease.AcquiredAt) - ttl; got < -time.Second || got > took {
		t.Errorf("the lease lasts from %v until %v, want %v", lease.AcquiredAt, lease.ExpiresAt, ttl)
	}
}

func testLeaseAcquire(t *testing.T, r repo.Repositories) {
	asked := newLease()
	for _, ttl := range []time.Duration{0, repo.MinLeaseTTL, repo.MaxLeaseTTL} {
		asked.Key.Name, asked.TTL = randomName(), ttl
		begun := time.Now()
		lease, err := r.Leases().Acquire(t.Context(), asked)
		if must(t, lease, err); ttl == 0 {
			ttl = limits.DefaultLeaseTTL
		}
		if lease.Key != asked.Key || lease.Owner != asked.Owner || lease.Fence < 1 || lease.Expired {
			t.Errorf("acquired %+v, asked for %+v", lease, asked)
		}
		wantLife(t, lease, begun, ttl)
		listed := listLeases(t, r, repo.LeaseFilter{Name: asked.Key.Name}, 0)
		if ttl == repo.MinLeaseTTL && len(listed) == 1 { // it may have expired
			listed[0].Expired = false
		}
		wantSame(t, "list", listed, []repo.Lease{lease})
	}
}

// The same owner gets the same lease, whose life is prolonged and never shortened.
func testLeaseReentrant(t *testing.T, r repo.Repositories) {
	asked := newLease()
	asked.TTL = time.Hour / 2
	first := acquire(t, r, asked)
	asked.TTL = time.Hour
	second := acquire(t, r, asked)
	if second.Fence != first.Fence || !second.AcquiredAt.Equal(first.AcquiredAt) || !second.ExpiresAt.After(first.ExpiresAt.Add(29*time.Minute)) {
		t.Errorf("acquired again: %+v after %+v", second, first)
	}
	asked.TTL = repo.MinLeaseTTL // short: the longer one stays
	wantSame(t, "lease that was acquired for a shorter time", acquire(t, r, asked), second)
	wantSame(t, "list", listLeases(t, r, repo.LeaseFilter{Owner: asked.Owner}, 0), []repo.Lease{second})
}

func testLeaseConflict(t *testing.T, r repo.Repositories) {
	asked := newLease()
	held := acquire(t, r, asked)
	for range 2 {
		_, err := r.Leases().Acquire(t.Context(), ofAnother(asked))
		wantLeaseConflict(t, err, held)
	}
	wantSame(t, "list", listLeases(t, r, repo.LeaseFilter{Name: asked.Key.Name}, 0), []repo.Lease{held})
}

func testLeaseRenew(t *testing.T, r repo.Repositories) {
	asked, begun := newLease(), time.Now()
	asked.TTL = limits.DefaultLeaseTTL - time.Minute
	held := acquire(t, r, asked)
	renew := func(lease repo.Lease, ttl time.Duration) repo.Lease {
		renewed, err := r.Leases().Renew(t.Context(), lease, ttl)
		return must(t, renewed, err)
	}
	renewed := renew(held, 0)
	wantLife(t, renewed, begun, limits.DefaultLeaseTTL)
	wantSame(t, "lease that was renewed for a shorter time", renew(held, repo.MinLeaseTTL), renewed)
	last := renew(renewed, time.Hour)
	wantLife(t, last, begun, time.Hour)
	last.ExpiresAt = held.ExpiresAt
	wantSame(t, "lease, but for its expiry", last, held)

	for name, lost := range map[string]func(l *repo.Lease){
		"of another kind":  func(l *repo.Lease) { l.Key.Kind = "other" },
		"of another name":  func(l *repo.Lease) { l.Key.Name = randomName() },
		"an earlier fence": func(l *repo.Lease) { l.Fence = 1 },
		"a later fence":    func(l *repo.Lease) { l.Fence++ },
	} {
		t.Run(name, func(t *testing.T) {
			if lease := held; lease.Fence > 1 || name != "an earlier fence" {
				lost(&lease)
				_, err := r.Leases().Renew(t.Context(), lease, 0)
				wantLeaseLost(t, err, lease)
			}
		})
	}
}

func testLeaseRelease(t *testing.T, r repo.Repositories) {
	asked := newLease()
	first := acquire(t, r, asked)
	stale := first
	stale.Fence++
	release(t, r, stale) // of no lease
	_, err := r.Leases().Acquire(t.Context(), ofAnother(asked))
	wantLeaseConflict(t, err, first)

	release(t, r, first)
	release(t, r, first)
	if left := listLeases(t, r, repo.LeaseFilter{Name: asked.Key.Name}, 0); len(left) > 0 {
		t.Errorf("released, but listed: %+v", left)
	}
	_, err = r.Leases().Renew(t.Context(), first, 0)
	wantLeaseLost(t, err, first)

	second := acquire(t, r, asked) // by the same owner
	if second.Fence <= first.Fence {
		t.Errorf("the fence is %d after %d", second.Fence, first.Fence)
	}
	release(t, r, first)
	_, err = r.Leases().Acquire(t.Context(), ofAnother(asked))
	wantLeaseConflict(t, err, second)
}

func testLeaseReleaseAll(t *testing.T, r repo.Repositories) {
	owner, other := randomName(), acquire(t, r, newLease())
	for i := range 3 {
		asked := newLease()
		asked.Owner = owner
		if i == 0 {
			asked.Key = repo.PlanLease(repo.NewID())
		}
		acquire(t, r, asked)
	}
	for _, want := range []int64{3, 0} {
		if released, err := r.Leases().ReleaseAll(t.Context(), owner); err != nil || released != want {
			t.Errorf("released %d, %v, want %d", released, err, want)
		}
	}
	if left := listLeases(t, r, repo.LeaseFilter{Owner: owner}, 0); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	wantSame(t, "other owner's lease", listLeases(t, r, repo.LeaseFilter{Owner: other.Owner}, 0), []repo.Lease{other})
}

// Tokens of a key grow, of any owner and however it ended.
func testLeaseTokens(t *testing.T, r repo.Repositories) {
	asked, last := newLease(), int64(0)
	for round := range 6 {
		lease := acquire(t, r, asked)
		if lease.Fence <= last {
			t.Errorf("the fence is %d after %d", lease.Fence, last)
		}
		last = lease.Fence
		if round%2 == 0 {
			release(t, r, lease)
			asked = ofAnother(asked)
			continue
		}
		if released, err := r.Leases().ReleaseAll(t.Context(), asked.Owner); err != nil || released != 1 {
			t.Errorf("released %d, %v", released, err)
		}
	}
}

// leasesOf makes leases of two owners and kinds, in a random order, and returns them in the order
// of lists.
func leasesOf(t *testing.T, r repo.Repositories) (owner, kind string, all []repo.Lease) {
	t.Helper()
	owner, kind = randomName(), "kind/"+randomName()
	for i, name := range []string{"b", "é", "a", "B", "a/b", "~"} {
		asked := repo.NewLease{Key: repo.LeaseKey{Kind: kind, Name: name}, Owner: owner}
		if i%2 == 1 {
			asked.Owner += "/other"
		}
		all = append(all, acquire(t, r, asked))
		asked.Key.Kind += "/other"
		all = append(all, acquire(t, r, asked))
	}
	slices.SortFunc(all, func(a, b repo.Lease) int {
		return strings.Compare(a.Key.Kind+"\x00"+a.Key.Name, b.Key.Kind+"\x00"+b.Key.Name)
	})
	return owner, kind, all
}

func testLeaseList(t *testing.T, r repo.Repositories) {
	owner, kind, all := leasesOf(t, r)
	for _, filter := range []repo.LeaseFilter{
		{Kind: kind},
		{Owner: owner},
		{Kind: kind, Owner: owner},
		{Kind: kind, Name: "a"},
		{Kind: kind + "/other", Name: "a", Owner: owner, Held: true},
		{Owner: owner, Held: true},
		{Owner: owner, Expired: true},
		{Kind: kind, Name: "none"},
	} {
		var want []repo.Lease
		for _, lease := range all {
			if (filter.Kind == "" || lease.Key.Kind == filter.Kind) && (filter.Name == "" || lease.Key.Name == filter.Name) &&
				(filter.Owner == "" || lease.Owner == filter.Owner) && !filter.Expired {
				want = append(want, lease)
			}
		}
		for _, limit := range []int{0, 1, 2} {
			if got := listLeases(t, r, filter, limit); !slices.Equal(got, want) {
				t.Errorf("%+v in pages of %d: got\n%+v, want\n%+v", filter, limit, got, want)
			}
		}
	}
}

// A cursor continues where its page ended, also if that lease is gone, and only with its
// filter.
func testLeaseListPages(t *testing.T, r repo.Repositories) {
	owner, kind, all := leasesOf(t, r)
	filter := repo.LeaseFilter{Owner: owner}
	first, err := r.Leases().List(t.Context(), filter, repo.Page{Limit: 2})
	must(t, first, err)
	release(t, r, first.Items[1])
	next, err := r.Leases().List(t.Context(), filter, repo.Page{Limit: 1, After: first.Next})
	if must(t, next, err); len(next.Items) != 1 || slices.Contains(first.Items, next.Items[0]) || !slices.Contains(all, next.Items[0]) {
		t.Errorf("got %+v after %+v", next.Items, first.Items)
	}
	for _, other := range []repo.LeaseFilter{{}, {Owner: owner, Kind: kind}, {Kind: owner}, {Owner: owner, Held: true}} {
		_, err := r.Leases().List(t.Context(), other, repo.Page{After: first.Next})
		wantInvalid(t, err, "page.after")
	}
}

// Kinds and names are told apart byte by byte.
func testLeaseKeys(t *testing.T, r repo.Repositories) {
	name, id := randomName(), repo.NewID()
	fences := map[int64]bool{}
	keys := []repo.LeaseKey{
		{Kind: name, Name: "a"},
		{Kind: name + "a", Name: "a"},
		{Kind: "a", Name: name},
		{Kind: name, Name: "A"},
		{Kind: name, Name: "a "},
		{Kind: name + " a", Name: "a"},
		{Kind: name, Name: "a a"},
		{Kind: name, Name: "é"},
		{Kind: name, Name: "e\u0301"},
		{Kind: name, Name: strings.Repeat("é", limits.MaxLeaseNameBytes/2)},
		{Kind: name + strings.Repeat("k", repo.MaxNameBytes-len(name)), Name: strings.Repeat("n", limits.MaxLeaseNameBytes)},
		repo.SessionLease(id), repo.PlanLease(id),
	}
	for _, key := range keys {
		lease := acquire(t, r, repo.NewLease{Key: key, Owner: strings.Repeat("o", limits.MaxUserIDBytes-len(key.Name)) + key.Name})
		fences[lease.Fence] = true
		if got := listLeases(t, r, repo.LeaseFilter{Kind: key.Kind, Name: key.Name}, 1); !slices.Equal(got, []repo.Lease{lease}) {
			t.Errorf("listed %+v, acquired %+v", got, lease)
		}
	}
	if len(fences) != len(keys) {
		t.Errorf("%d fences for %d keys", len(fences), len(keys))
	}
	// A name selects those of any kind.
	acquire(t, r, repo.NewLease{Key: repo.LeaseKey{Kind: "other", Name: id.String()}, Owner: name})
	for text, want := range map[string]string{id.String(): "other plan session", "x" + id.String(): ""} {
		var kinds []string
		for _, lease := range listLeases(t, r, repo.LeaseFilter{Name: text}, 1) {
			if kinds = append(kinds, lease.Key.Kind); lease.Key.Name != text {
				t.Errorf("%s: listed %+v", text, lease)
			}
		}
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%s is listed with the kinds %s, want %s", text, got, want)
		}
	}
}

func testLeaseInvalid(t *testing.T, r repo.Repositories) {
	ctx, leases := t.Context(), r.Leases()
	for field, spoil := range map[string]func(*repo.NewLease){
		"key.kind": func(l *repo.NewLease) { l.Key.Kind = "" },
		"key.name": func(l *repo.NewLease) { l.Key.Name = "" },
		"owner":    func(l *repo.NewLease) { l.Owner = "" },
		"ttl":      func(l *repo.NewLease) { l.TTL = repo.MinLeaseTTL - time.Microsecond }, // short: refused
		"slots":    func(l *repo.NewLease) { l.Slots = 1001 },
	} {
		asked := newLease()
		spoil(&asked)
		_, err := leases.Acquire(ctx, asked)
		wantInvalid(t, err, field)
	}
	for _, bad := range []string{strings.Repeat("x", 1025), "\xff", "a\x00b"} {
		asked := newLease()
		asked.Key.Name = bad
		wantInvalid(t, second(leases.Acquire(ctx, asked)), "key.name")
		asked = newLease()
		asked.Key.Kind = bad
		wantInvalid(t, second(leases.Acquire(ctx, asked)), "key.kind")
		asked = newLease()
		asked.Owner = bad
		wantInvalid(t, second(leases.Acquire(ctx, asked)), "owner")
		wantInvalid(t, second(leases.ReleaseAll(ctx, bad)), "owner")
		wantInvalid(t, second(leases.List(ctx, repo.LeaseFilter{Owner: bad}, repo.Page{})), "owner")
		wantInvalid(t, second(leases.List(ctx, repo.LeaseFilter{Kind: bad}, repo.Page{})), "kind")
		wantInvalid(t, second(leases.List(ctx, repo.LeaseFilter{Name: bad}, repo.Page{})), "name")
	}
	for _, ttl := range []time.Duration{-1, 1, repo.MaxLeaseTTL + time.Microsecond} {
		asked := newLease()
		asked.TTL = ttl
		wantInvalid(t, second(leases.Acquire(ctx, asked)), "ttl")
		wantInvalid(t, second(leases.Renew(ctx, repo.Lease{Key: asked.Key, Fence: 1}, ttl)), "ttl")
	}
	for _, key := range []repo.LeaseKey{repo.SessionLease(repo.NewID()), repo.PlanLease(repo.NewID())} {
		wantInvalid(t, second(leases.Acquire(ctx, repo.NewLease{Key: key, Owner: "o", Slots: 2})), "slots")
	}
	long := repo.NewLease{Key: repo.LeaseKey{Kind: "k", Name: strings.Repeat("x", 767)}, Owner: randomName(), Slots: 2}
	wantInvalid(t, second(leases.Acquire(ctx, long)), "key.name")
	wantInvalid(t, second(leases.Acquire(ctx, repo.NewLease{Key: newLease().Key, Owner: "o", Slots: -1})), "slots")
	wantInvalid(t, leases.Await(ctx, repo.Lease{Key: newLease().Key}), "fence")
	for _, kind := range []string{repo.LeaseOfSession, repo.LeaseOfPlan} {
		for _, spelling := range []string{"x", strings.ToUpper(repo.NewID().String())} {
			asked := newLease()
			asked.Key = repo.LeaseKey{Kind: kind, Name: spelling}
			wantInvalid(t, second(leases.Acquire(ctx, asked)), "key.name")
		}
	}
	wantInvalid(t, second(leases.ReleaseAll(ctx, "")), "owner")
	wantInvalid(t, second(leases.Renew(ctx, repo.Lease{Key: newLease().Key}, 0)), "fence")
	wantInvalid(t, leases.Release(ctx, repo.Lease{Key: newLease().Key}), "fence")
	wantInvalid(t, leases.Release(ctx, repo.Lease{Fence: 1}), "key.kind")
	wantInvalid(t, second(leases.List(ctx, repo.LeaseFilter{Held: true, Expired: true}, repo.Page{})), "expired")
	wantInvalid(t, second(leases.List(ctx, repo.LeaseFilter{}, repo.Page{Limit: -1})), "limit")
	wantInvalid(t, second(leases.List(ctx, repo.LeaseFilter{}, repo.Page{After: "x"})), "page.after")
}
