package audit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	trail "github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A verification beside a writer, a sealer and a pruner finds no break where there
// is none.
func TestVerifyBesideSealer(t *testing.T) {
	t.Parallel()
	store := open(t, pgtest.NewDatabase(t), agentstore.Options{MaxConns: 12})
	signer, verifier := newKeys(t, "beside")
	ctx, cancel := context.WithCancel(t.Context())
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	lastYear := time.Now().AddDate(-1, 0, 0)
	background.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			batch := make([]repo.AuditEntry, 20)
			for i := range batch {
				batch[i] = entryAt(time.Now())
				if i%2 == 0 {
					batch[i] = entryAt(lastYear.Add(time.Duration(n) * time.Second))
				}
			}
			if err := store.Audit().Record(ctx, batch...); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	sealer, err := trail.NewSealer(store.Trail(), trail.SealerOptions{Signer: signer, Batch: 100, Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	background.Go(func() { sealer.Run(ctx) })
	background.Go(func() {
		for ctx.Err() == nil {
			_, err := store.Trail().Prune(ctx, repo.AuditPrune{Before: lastYear.AddDate(0, 1, 0)})
			if err != nil && ctx.Err() == nil && !errors.Is(err, repo.ErrContention) {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	const runs = 30
	broken, naive, sizes := 0, 0, int64(0)
	// A busy machine may take a while to seal something beside a run.
	deadline := time.Now().Add(time.Minute)
	for done := 0; done < runs || naive == 0 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
		before, err := store.Trail().Checkpoint(ctx)
		if errors.Is(err, repo.ErrNotFound) && time.Now().Before(deadline) {
			continue
		}
		done++
		if err != nil {
			t.Fatal(err)
		}
		report, err := trail.Verify(ctx, store.Trail(), trail.VerifyOptions{Verifier: verifier})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Breaks) != 0 {
			broken++
			t.Logf("%d leaves: %+v", report.Sealed, report.Breaks[0])
		}
		// The old way reads the checkpoint first, then all the leaves that there are.
		if leaves, err := store.Trail().Leaves(ctx, before.Size, 1); err != nil {
			t.Fatal(err)
		} else if len(leaves) > 0 {
			naive++
		}
		sizes = max(sizes, report.Sealed)
	}
	if broken != 0 {
		t.Errorf("%d of %d runs report breaks of a trail that is whole", broken, runs)
	}
	if naive == 0 {
		t.Error("the old way finds nothing wrong either: this test sees nothing")
	}
	t.Logf("%d runs, up to %d leaves; the old way reports breaks in %d", runs, sizes, naive)
}
