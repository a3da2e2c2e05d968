package clock

import (
	"errors"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// A lease lasts no longer than its life and the step of the server's clock, and no two
// have one token. A step forward ends leases early: their holders cannot know, and work
// until the next renewal beside their successors, which have larger tokens.
// Guarantee: Clocks: A lease lasts at most its life and the step.
func TestLeasesAcrossSteps(t *testing.T) {
	clock, store := open(t)
	ctx, leases := t.Context(), store.Leases()
	asked := repo.NewLease{Key: repo.LeaseKey{Kind: "project", Name: "a"}, Owner: "first", TTL: time.Hour}
	other := asked
	other.Owner = "second"
	first, err := leases.Acquire(ctx, asked)
	must(t, first, err)

	clock.Set(t, -5*time.Second)
	if _, err := leases.Acquire(ctx, other); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("after a step back: %v", err)
	}
	again, err := leases.Acquire(ctx, asked)
	if must(t, again, err); again != first {
		t.Errorf("after a step back the owner acquires %+v, not %+v", again, first)
	}
	renewed, err := leases.Renew(ctx, first, time.Hour)
	must(t, renewed, err)
	if lasts := renewed.ExpiresAt.Sub(serverTime(t, store)); lasts > time.Hour+5*time.Second {
		t.Errorf("renewed after a step back, it lasts %v", lasts)
	}

	clock.Set(t, 2*time.Hour)
	lost, err := leases.Renew(ctx, renewed, 0)
	if _, isLost := errors.AsType[*repo.LeaseLostError](err); !isLost {
		t.Errorf("renewed after a step forward: %+v, %v", lost, err)
	}
	second, err := leases.Acquire(ctx, other)
	must(t, second, err)

	// A failover to a server whose clock is behind: what had expired stays lost.
	clock.Set(t, -3*time.Hour)
	if err := leases.Release(ctx, second); err != nil {
		t.Fatal(err)
	}
	third, err := leases.Acquire(ctx, asked)
	must(t, third, err)
	if first.Fence >= second.Fence || second.Fence >= third.Fence {
		t.Errorf("the tokens are %d, %d, %d", first.Fence, second.Fence, third.Fence)
	}
	if _, err := leases.Renew(ctx, first, 0); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("the first lease was renewed: %v", err)
	}
	if lasts := third.ExpiresAt.Sub(serverTime(t, store)); lasts > time.Hour {
		t.Errorf("acquired after a step back, it lasts %v", lasts)
	}
}
