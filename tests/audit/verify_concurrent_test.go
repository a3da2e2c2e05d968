package audit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	trail "github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A verification reports no breaks because others write, seal and prune.
// Guarantee: The audit trail: A verification beside recording, sealing and pruning finds no false break.
func TestVerifyBesideSealer(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 12})
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
			time.Sleep(50 * time.Millisecond) // pace: these are sealed
		}
	})
	sealer, err := trail.NewSealer(store.AuditLog(), trail.SealerOptions{Signer: signer, Batch: 100, Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	background.Go(func() { sealer.Run(ctx) })
	background.Go(func() {
		for ctx.Err() == nil {
			_, err := store.AuditLog().Prune(ctx, auditlog.Prune{Before: lastYear.AddDate(0, 1, 0)})
			if err != nil && ctx.Err() == nil && !errors.Is(err, repo.ErrContention) {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond) // pace: there is something to prune
		}
	})
	runs := pgtest.Choose(30, 5)
	broken, naive, sizes := 0, 0, int64(0)
	await.For(t, "something is sealed", func() bool {
		_, err := store.AuditLog().Checkpoint(ctx)
		return err == nil
	})
	end := await.End(t)
	for done := 0; done < runs || naive == 0 && time.Now().Before(end); done++ {
		time.Sleep(20 * time.Millisecond) // pace: more is sealed
		before, err := store.AuditLog().Checkpoint(ctx)
		if err != nil {
			t.Fatal(err)
		}
		report, err := trail.Verify(ctx, store.AuditLog(), trail.VerifyOptions{Verifier: verifier})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Breaks) != 0 {
			broken++
			t.Logf("%d leaves: %+v", report.Sealed, report.Breaks[0])
		}
		// The naive way reads the checkpoint first, and then all leaves.
		if leaves, err := store.AuditLog().Leaves(ctx, before.Size, 1); err != nil {
			t.Fatal(err)
		} else if len(leaves) > 0 {
			naive++
		}
		sizes = max(sizes, report.Sealed)
	}
	if broken != 0 {
		t.Errorf("%d of %d runs report breaks in an intact trail", broken, runs)
	}
	if naive == 0 { // On a busy machine it may take a while until something is sealed during a run.
		t.Error("the naive way reports no breaks either, so this test checks nothing")
	}
	t.Logf("%d runs, up to %d leaves; the naive way reports breaks in %d", runs, sizes, naive)
}
