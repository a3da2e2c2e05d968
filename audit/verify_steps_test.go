package audit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// stepped is a log with small pages that calls before ahead of each read.
type stepped struct {
	auditlog.Log
	reads  int
	before func(read int) error
}

func (l *stepped) step() error {
	l.reads++
	return l.before(l.reads)
}

func (l *stepped) Identity(ctx context.Context) (repo.ID, error) {
	if err := l.step(); err != nil {
		return repo.ID{}, err
	}
	return l.Log.Identity(ctx)
}

func (l *stepped) Leaves(ctx context.Context, from int64, limit int) ([]auditlog.Leaf, error) {
	if err := l.step(); err != nil {
		return nil, err
	}
	return l.Log.Leaves(ctx, from, min(limit, 8))
}

func (l *stepped) Leaf(ctx context.Context, id repo.ID) (auditlog.Leaf, error) {
	if err := l.step(); err != nil {
		return auditlog.Leaf{}, err
	}
	return l.Log.Leaf(ctx, id)
}

func (l *stepped) Hashes(ctx context.Context, indexes []int64) ([][32]byte, error) {
	if err := l.step(); err != nil {
		return nil, err
	}
	return l.Log.Hashes(ctx, indexes)
}

func (l *stepped) Checkpoint(ctx context.Context) (auditlog.Checkpoint, error) {
	if err := l.step(); err != nil {
		return auditlog.Checkpoint{}, err
	}
	return l.Log.Checkpoint(ctx)
}

func (l *stepped) Strays(ctx context.Context, limit int) ([]repo.ID, error) {
	if err := l.step(); err != nil {
		return nil, err
	}
	return l.Log.Strays(ctx, limit)
}

func (l *stepped) Lost(ctx context.Context, limit int) ([]repo.ID, error) {
	if err := l.step(); err != nil {
		return nil, err
	}
	return l.Log.Lost(ctx, limit)
}

func (l *stepped) Waiting(ctx context.Context, limit int) (auditlog.Waiting, error) {
	if err := l.step(); err != nil {
		return auditlog.Waiting{}, err
	}
	return l.Log.Waiting(ctx, limit)
}

// Whatever happens between two reads of a verification, it returns an error as it is,
// and reports no break because others record, seal or prune.
func TestVerifyAtEachStep(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for name, test := range map[string]struct {
		want error
		// at runs before one of the reads, and then two reads later, so that the read in
		// between does not find the prune's own entry in the log.
		at, then func(t *testing.T, trail trail) error
	}{
		"an error":  {failed, func(*testing.T, trail) error { return failed }, nil},
		"cancelled": {context.Canceled, func(_ *testing.T, trail trail) error { trail.cancel(); return nil }, nil},
		"sealed":    {nil, func(t *testing.T, trail trail) error { trail.record(t); trail.seal(t); return nil }, nil},
		"pruned":    {nil, func(t *testing.T, trail trail) error { trail.prune(t); trail.seal(t); return nil }, nil},
		"pruned, and sealed later": {
			nil,
			func(t *testing.T, trail trail) error { trail.record(t); trail.seal(t); trail.prune(t); return nil },
			func(t *testing.T, trail trail) error {
				trail.record(t)
				trail.seal(t)
				trail.prune(t)
				trail.seal(t)
				return nil
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for at := 1; ; at++ {
				ctx, cancel := context.WithCancel(t.Context())
				trail := newTrail(t, cancel)
				log := &stepped{Log: trail.store.AuditLog(), before: func(read int) error {
					switch {
					case read == at:
						return test.at(t, trail)
					case read == at+2 && test.then != nil:
						return test.then(t, trail)
					}
					return nil
				}}
				report, err := Verify(ctx, log, VerifyOptions{MaxPruneWait: time.Hour})
				cancel()
				if at > log.reads {
					return
				}
				if !errors.Is(err, test.want) || len(report.Breaks) > 0 {
					t.Errorf("before read %d: %v, %+v", at, err, report.Breaks)
				}
			}
		})
	}
}

// trail has been pruned, and has more entries that can be.
type trail struct {
	store  *memory.Store
	sealer *Sealer
	cancel context.CancelFunc
}

func newTrail(t *testing.T, cancel context.CancelFunc) trail {
	t.Helper()
	store := memory.New()
	sealer, err := NewSealer(store.AuditLog(), SealerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	trail := trail{store, sealer, cancel}
	for range 3 {
		trail.record(t)
		trail.seal(t)
	}
	trail.prune(t)
	trail.record(t)
	trail.seal(t)
	return trail
}

func (l trail) record(t *testing.T) {
	t.Helper()
	entries := make([]repo.AuditEntry, 5)
	for i := range entries {
		entries[i] = repo.AuditEntry{Type: EventToolInvoked, OccurredAt: time.Now().Add(-time.Hour)}
	}
	if err := l.store.Audit().Record(t.Context(), entries...); err != nil {
		t.Error(err)
	}
}

func (l trail) seal(t *testing.T) {
	t.Helper()
	if _, err := l.sealer.SealOnce(t.Context()); err != nil {
		t.Error(err)
	}
}

func (l trail) prune(t *testing.T) {
	t.Helper()
	if _, err := l.store.AuditLog().Prune(t.Context(), auditlog.Prune{Before: time.Now().Add(-time.Minute)}); err != nil {
		t.Error(err)
	}
}
