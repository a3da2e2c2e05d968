package retention_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/retention"
)

func open(t *testing.T) *agentstore.Store {
	t.Helper()
	return openWith(t, agentstore.Options{})
}

// openEarlier opens a store whose clock is an hour behind, until old lets the hour pass.
func openEarlier(t *testing.T) (store *agentstore.Store, old func()) {
	t.Helper()
	clock := memory.NewClock(time.Now().Add(-time.Hour))
	return openWith(t, agentstore.Options{Clock: clock}), func() { clock.Advance(time.Hour) }
}

func openWith(t *testing.T, options agentstore.Options) *agentstore.Store {
	t.Helper()
	store, err := agentstore.Open(t.Context(), "memory://"+repo.NewID().String(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func session(t *testing.T, store repo.Store, new repo.NewSession, messages int) repo.ID {
	t.Helper()
	created, err := store.Sessions().Create(t.Context(), new)
	if err != nil {
		t.Fatal(err)
	}
	for range messages {
		if _, err := store.Sessions().Append(t.Context(), created.ID, repo.NewMessage{Role: repo.RoleUser, Content: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	return created.ID
}

// Guarantee: Deletion: A dry run of retention counts what the run then removes.
func TestRun(t *testing.T) {
	t.Parallel()
	store, old := openEarlier(t)
	for i := range 5 {
		session(t, store, repo.NewSession{}, i)
	}
	held := session(t, store, repo.NewSession{}, 1)
	other := session(t, store, repo.NewSession{Namespace: "other"}, 1)
	if err := store.Sessions().AddHold(t.Context(), repo.LegalHold{SessionID: held, Reason: "asked for"}); err != nil {
		t.Fatal(err)
	}
	old()
	policy := retention.Policy{Sessions: map[string]time.Duration{repo.DefaultNamespace: time.Minute}}
	for _, policy.DryRun = range []bool{true, false} {
		report, err := retention.Run(t.Context(), store, policy)
		if want := (retention.Report{Sessions: 5, Messages: 10, Held: 1}); err != nil || report != want {
			t.Errorf("dry run %t: %+v, %v", policy.DryRun, report, err)
		}
	}
	if report, err := retention.Run(t.Context(), store, policy); err != nil || report != (retention.Report{Held: 1}) {
		t.Errorf("again: %+v, %v", report, err)
	}
	for _, id := range []repo.ID{held, other} {
		if _, err := store.Sessions().Get(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}

// What is appended to between the look and the deletion stays.
func TestWhatChangesStays(t *testing.T) {
	t.Parallel()
	store, old := openEarlier(t)
	id := session(t, store, repo.NewSession{}, 1)
	old()
	policy := retention.Policy{Sessions: map[string]time.Duration{repo.DefaultNamespace: time.Minute}}
	policy.Progress = func(retention.Report) {}
	appended := false
	policy.Wait = func(ctx context.Context) error {
		if !appended {
			appended = true
			_, err := store.Sessions().Append(ctx, id, repo.NewMessage{Role: repo.RoleUser, Content: "y"})
			return err
		}
		return nil
	}
	if report, err := retention.Run(t.Context(), store, policy); err != nil || report != (retention.Report{InUse: 1}) {
		t.Errorf("%+v, %v", report, err)
	}
}

// Of two runs one works; one that is cancelled is finished by the next.
func TestOneRunAtATime(t *testing.T) {
	t.Parallel()
	store, old := openEarlier(t)
	for range 400 {
		session(t, store, repo.NewSession{}, 1)
	}
	old()
	policy := retention.Policy{Sessions: map[string]time.Duration{repo.DefaultNamespace: time.Minute}}
	stop := errors.New("stop")
	batches := 0
	first := policy
	first.Wait = func(ctx context.Context) error {
		if _, err := retention.Run(ctx, store, policy); !isLeaseConflict(err) {
			t.Errorf("a second run: %v", err)
		}
		if batches++; batches > 1 {
			return stop
		}
		return nil
	}
	begun, err := retention.Run(t.Context(), store, first)
	if !errors.Is(err, stop) || begun.Sessions == 0 || begun.Sessions == 400 {
		t.Errorf("%+v, %v", begun, err)
	}
	if report, err := retention.Run(t.Context(), store, policy); err != nil || report.Sessions != 400-begun.Sessions {
		t.Errorf("%+v after %+v, %v", report, begun, err)
	}
}

func isLeaseConflict(err error) bool {
	_, is := errors.AsType[*repo.LeaseConflictError](err)
	return is
}

func TestInvalidPolicies(t *testing.T) {
	t.Parallel()
	for _, policy := range []retention.Policy{
		{Sessions: map[string]time.Duration{"x": 0}}, {Plans: map[string]time.Duration{"x": -1}}, {Audit: -1},
	} {
		if _, err := retention.Run(t.Context(), open(t), policy); !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%+v: %v", policy, err)
		}
	}
}

func TestHas(t *testing.T) {
	t.Parallel()
	repotest.Has(t, open(t))
}

func TestOldTurns(t *testing.T) {
	t.Parallel()
	store := open(t)
	repotest.OldTurns(t, store, turnsOf(t, store))
}

// Turns are counted, too, if their sessions go in the same run.
func TestTurnsOfSessionsThatGo(t *testing.T) {
	t.Parallel()
	store, old := openEarlier(t)
	for range 3 {
		turn := repo.Turn{ID: repo.NewID().String(), SessionID: session(t, store, repo.NewSession{}, 0), Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "x"}}}
		if _, err := store.Sessions().AppendTurn(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
	}
	old()
	policy := retention.Policy{Sessions: map[string]time.Duration{repo.DefaultNamespace: time.Minute}, Turns: time.Minute}
	for _, policy.DryRun = range []bool{true, false} {
		report, err := retention.Run(t.Context(), store, policy)
		if want := (retention.Report{Sessions: 3, Messages: 3, Turns: 3}); err != nil || report != want {
			t.Errorf("dry run %t: %+v, %v", policy.DryRun, report, err)
		}
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	store := open(t)
	repotest.DryRun(t, store, removedOf(t, store))
}

// In a view a run removes what is of its namespace, whatever the policy names.
func TestRunInView(t *testing.T) {
	t.Parallel()
	store, old := openEarlier(t)
	gone := session(t, store, repo.NewSession{Namespace: "tenant"}, 2)
	other := session(t, store, repo.NewSession{Namespace: "other"}, 2)
	old()
	policy := retention.Policy{Sessions: map[string]time.Duration{"tenant": time.Minute, "other": time.Minute}}
	for _, policy.DryRun = range []bool{true, false} {
		if report, err := retention.Run(t.Context(), store.In("tenant"), policy); err != nil || report != (retention.Report{Sessions: 1, Messages: 2}) {
			t.Errorf("%+v, %v", report, err)
		}
	}
	if _, err := store.Sessions().Get(t.Context(), gone); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
	if _, err := store.Sessions().Get(t.Context(), other); err != nil {
		t.Error(err)
	}
}

func turnsOf(t *testing.T, store repo.Store) func(time.Duration, bool) (int64, int64) {
	t.Helper()
	return func(age time.Duration, dryRun bool) (removed, held int64) {
		report, err := retention.Run(t.Context(), store, retention.Policy{Turns: age, DryRun: dryRun})
		if err != nil {
			t.Error(err)
		}
		return report.Turns, report.Held
	}
}

func removedOf(t *testing.T, store repo.Store) func(time.Duration, bool) repotest.Removed {
	t.Helper()
	return func(age time.Duration, dryRun bool) repotest.Removed {
		ages := map[string]time.Duration{repo.DefaultNamespace: age}
		r, err := retention.Run(t.Context(), store, retention.Policy{Sessions: ages, Plans: ages, DryRun: dryRun})
		if err != nil {
			t.Error(err)
		}
		return repotest.Removed{Sessions: r.Sessions, Messages: r.Messages + r.Kept, Plans: r.Plans, Held: r.Held, InUse: r.InUse}
	}
}
