package clock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/retention"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// made makes sessions of a namespace.
func made(t *testing.T, store *agentstore.Store, namespace string, count int) (ids []repo.ID) {
	t.Helper()
	for range count {
		session, err := store.Sessions().Create(t.Context(), repo.NewSession{Namespace: namespace, Owner: "person"})
		ids = append(ids, must(t, session, err).ID)
	}
	return ids
}

func appendTo(t *testing.T, store *agentstore.Store, id repo.ID) {
	t.Helper()
	stored, err := store.Sessions().Append(t.Context(), id, message())
	must(t, stored, err)
}

func exists(t *testing.T, store *agentstore.Store, id repo.ID) bool {
	t.Helper()
	_, err := store.Sessions().Get(t.Context(), id)
	if err != nil && !errors.Is(err, repo.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// ran runs retention of sessions of a namespace that are idle for half an hour, with wait before each batch.
func ran(t *testing.T, store *agentstore.Store, namespace string, wait func(context.Context) error) (retention.Report, error) {
	t.Helper()
	return retention.Run(t.Context(), store, retention.Policy{Sessions: map[string]time.Duration{namespace: 30 * time.Minute}, Wait: wait})
}

// The server's clock is an hour behind this machine's, or ahead of it; it steps back when a session is appended to between the look and
// the deletion, and when a lease that is named after a person ends; and it steps forward while one works.
// Guarantee: Clocks: Retention keeps what is younger than promised, however the clock steps.
func TestRemovalsAcrossSteps(t *testing.T) {
	clock, store := open(t)
	sessions := store.Sessions()
	for namespace, offset := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour} {
		clock.Set(t, offset-2*time.Hour)
		old := made(t, store, namespace, 1)[0]
		clock.Set(t, offset)
		young := made(t, store, namespace, 1)[0]
		report, err := ran(t, store, namespace, nil)
		if must(t, report, err); report.Sessions != 1 || exists(t, store, old) || !exists(t, store, young) {
			t.Errorf("the clock is %s: %+v", namespace, report)
		}
	}

	clock.Set(t, -2*time.Hour)
	ids := made(t, store, "used", 2)
	clock.Set(t, 0)
	used := false
	report, err := ran(t, store, "used", func(context.Context) error {
		if !used {
			used = true
			clock.Set(t, -time.Hour)
			appendTo(t, store, ids[0])
			clock.Set(t, 0)
		}
		return nil
	})
	if must(t, report, err); report.Sessions != 1 || report.InUse != 1 || !exists(t, store, ids[0]) || exists(t, store, ids[1]) {
		t.Errorf("a session was appended to while the clock was an hour behind: %+v", report)
	}

	// A hold that is made by a clock that is behind holds.
	clock.Set(t, -3*time.Hour)
	held := made(t, store, "held", 1)[0]
	clock.Set(t, 0)
	for offset, hold := range map[time.Duration]repo.LegalHold{
		0: {SessionID: held}, -5 * time.Second: {Namespace: "held", Owner: "person"}, -2 * time.Hour: {Namespace: "held"},
	} {
		hold.Reason = "x"
		clock.Set(t, offset)
		if err := sessions.AddHold(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
		clock.Set(t, 0)
		report, err := ran(t, store, "held", nil)
		if must(t, report, err); report != (retention.Report{Held: 1}) {
			t.Errorf("%+v: %+v", hold, report)
		}
		clock.Set(t, -time.Hour)
		request := erase.Request{Owner: "person", Key: []byte("sixteen bytes or")}
		if receipt, err := erase.Subject(t.Context(), store, request); !errors.Is(err, repo.ErrConflict) || receipt.Sessions > 0 {
			t.Errorf("%+v: %+v, %v", hold, receipt, err)
		}
		if err := sessions.RemoveHold(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	}

	// The clock steps forward while one works: its lease is over, and another one works. Together they remove each session once.
	clock.Set(t, -2*time.Hour)
	made(t, store, "two", 3)
	clock.Set(t, 0)
	var second retention.Report
	first, err := ran(t, store, "two", func(ctx context.Context) error {
		clock.Set(t, time.Hour)
		second, err = ran(t, store, "two", nil)
		must(t, second, err)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if _, lost := errors.AsType[*repo.LeaseLostError](err); !lost || first.Sessions != 0 || second.Sessions != 3 {
		t.Errorf("%+v, %v; the second one: %+v", first, err, second)
	}
	clock.Set(t, 0)

	// The fence of a lease is that of the clock before it stepped back: the row, with the name, stays, and the receipt says so.
	lease, err := store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.LeaseKey{Kind: "user", Name: "person"}, Owner: "worker"})
	must(t, lease, err)
	if err := store.Leases().Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	for offset, want := range []int64{1, 0} {
		clock.Set(t, time.Duration(offset-1)*time.Hour)
		receipt, err := erase.Subject(t.Context(), store, erase.Request{Owner: "person", Key: []byte("sixteen bytes or")})
		left := pgtest.Value[int64](t, store.Pool(), "SELECT count(*) FROM leases WHERE name = 'person'")
		if must(t, receipt, err); receipt.Named != want || left != want {
			t.Errorf("%d leases are left, the receipt says %d", left, receipt.Named)
		}
	}
}
