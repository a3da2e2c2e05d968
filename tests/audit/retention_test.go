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
	"github.com/seed-df90f812/agentstore/retention"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Runs of retention prune the trail while others record entries that are new, and some that are too old at once, while they are
// sealed, and while one verification follows another. Each old entry is counted once, but for those on hold, which stay.
// Guarantee: Deletion: Retention of the trail counts exactly, beside writers, a sealer and a verification.
func TestRetentionBesideVerification(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 12})
	signer, verifier := newKeys(t, "retention")
	sealer, err := trail.NewSealer(store.AuditLog(), trail.SealerOptions{Signer: signer, Batch: 200, Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	held := repo.NewID()
	if err := store.AuditLog().Hold(t.Context(), auditlog.Hold{SessionID: held, Reason: "court"}); err != nil {
		t.Fatal(err)
	}
	writers, batches := 4, pgtest.Choose(200, 20)
	ctx, cancel := context.WithCancel(t.Context())
	var writing, sealing sync.WaitGroup
	sealing.Go(func() { sealer.Run(ctx) })
	for range writers {
		writing.Go(func() {
			for n := range batches {
				entries := make([]repo.AuditEntry, 20)
				for i := range entries {
					entries[i] = entryAt(time.Now())
					if i%2 == 0 {
						entries[i] = entryAt(time.Now().AddDate(-8, 0, n))
					}
				}
				entries[0].SessionID = held // an old one
				if err := store.Audit().Record(t.Context(), entries...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		writing.Wait()
	}()
	var pruned int64
	prune := func() (now retention.Report) {
		policy := retention.Policy{Audit: 7 * 365 * 24 * time.Hour, Reason: "promised"}
		now, err := retention.Run(t.Context(), store, policy)
		if err != nil {
			t.Error(err)
		}
		pruned += now.Entries
		return now
	}
	var verifying sync.WaitGroup
	verifications := 0
	verifying.Go(func() {
		for done := false; !done; verifications++ {
			select {
			case <-written:
				done = true
			default:
			}
			report, err := trail.Verify(t.Context(), store.AuditLog(), trail.VerifyOptions{Verifier: verifier})
			if err != nil && !errors.Is(err, repo.ErrNotFound) || !report.Intact() { // not found: nothing is sealed yet
				t.Errorf("the intact trail: %+v, %v", report, err)
			}
		}
	})
	runs := 0
	for done := false; !done; runs++ {
		select {
		case <-written:
			done = true
		default:
		}
		prune()
	}
	verifying.Wait()
	cancel()
	sealing.Wait()
	// Transactions of other databases of the server, that began earlier, hold up the sealing.
	seal := func() {
		await.For(t, "all is sealed", func() bool {
			if _, err := sealer.SealOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			return pgtest.Value[bool](t, store.Pool(), "SELECT NOT EXISTS (SELECT FROM audit_unsealed)")
		})
	}
	seal()
	last := prune()
	seal()
	old := int64(writers * batches * 10)
	kept := int64(writers * batches)
	report, err := trail.Verify(t.Context(), store.AuditLog(), trail.VerifyOptions{Verifier: verifier})
	if err != nil || !report.Intact() || report.Pruned != pruned || report.Waiting != 0 || pruned != old-kept || last.Held != kept {
		t.Errorf("%d pruned of %d, of which %d are held; at last %+v; the trail: %+v, %v", pruned, old, kept, last, report, err)
	}
	t.Logf("%d pruned by %d runs, beside %d verifications", pruned, runs+1, verifications)
}
