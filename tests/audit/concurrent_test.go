package audit

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Recorders, readers, a pruner and two sealers work at once, on thousands of entries.
// Each entry is there once, or is pruned and has a leaf that names the prune.
func TestEverybodyAtOnce(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 16})
	const recorders, batches, size = 6, 40, 25
	old, young := events.ToolInvoked, events.UserApproval // only old entries are pruned
	lastYear := time.Now().AddDate(-1, 0, 0)
	var mu sync.Mutex
	accepted := map[repo.ID]repo.AuditEntry{}

	var done atomic.Bool
	var background, recording sync.WaitGroup
	for i := range recorders {
		recording.Go(func() {
			sink, err := store.AuditLog().Sink(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = sink.Close() }()
			for n := range batches {
				batch := make([]repo.AuditEntry, size)
				for j := range batch {
					batch[j] = entryAt(time.Now())
					batch[j].Type, batch[j].Project = young, "project"
					if j%2 == 0 {
						batch[j].Type = old
						batch[j].OccurredAt = lastYear.Add(time.Duration(n*size+j) * time.Hour).UTC().Truncate(time.Microsecond)
					}
				}
				switch (i + n) % 3 {
				case 0:
					err = store.Audit().Record(t.Context(), batch...)
				case 1:
					err = store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error { return tx.Audit().Record(ctx, batch...) })
				case 2: // again, as after a lost answer
					if _, err = sink.Record(t.Context(), batch); err == nil {
						var again auditlog.Recorded
						if again, err = sink.Record(t.Context(), batch); err == nil && again.Written != 0 {
							t.Errorf("%d entries were written twice", again.Written)
						}
					}
				}
				if err != nil {
					t.Errorf("recorder %d: %v", i, err)
					return
				}
				mu.Lock()
				for _, e := range batch {
					accepted[e.ID] = e
				}
				mu.Unlock()
			}
		})
	}
	for range 2 {
		background.Go(func() {
			for !done.Load() {
				_, err := store.AuditLog().Seal(t.Context(), 500, func(u auditlog.Unsealed, _ auditlog.HashReader) (auditlog.Seal, error) {
					leaves := make([][32]byte, len(u.Entries))
					return auditlog.Seal{Leaves: leaves, Hidden: leaves, FirstHash: u.Size, Hashes: leaves, Checkpoint: auditlog.Checkpoint{Size: u.Size + int64(len(leaves)), Note: []byte{1}}}, nil
				})
				if err != nil && !errors.Is(err, repo.ErrContention) {
					t.Errorf("sealer: %v", err)
					return
				}
				time.Sleep(2 * time.Millisecond) // pace: some entries come
			}
		})
	}
	var pruned int64
	background.Go(func() {
		for !done.Load() {
			got, err := store.AuditLog().Prune(t.Context(), auditlog.Prune{Before: time.Now().AddDate(0, -2, 0), Types: []string{old}})
			if err != nil {
				t.Errorf("pruner: %v", err)
				return
			}
			pruned += got.Entries
			time.Sleep(20 * time.Millisecond) // pace: some entries come
		}
	})
	for i := range 3 {
		background.Go(func() {
			for !done.Load() {
				mu.Lock()
				known := len(accepted)
				want := make(map[repo.ID]bool, known)
				for id, e := range accepted {
					if e.Type == young {
						want[id] = true
					}
				}
				mu.Unlock()
				seen := listed(t, store, repo.AuditFilter{Project: "project", OldestFirst: i%2 == 1})
				for _, e := range seen {
					delete(want, e.ID)
				}
				if len(want) != 0 {
					t.Errorf("a list misses %d of the entries that were recorded before it began and are not pruned", len(want))
					return
				}
				if _, _, err := store.Audit().Count(t.Context(), repo.AuditFilter{Type: young}, 1000); err != nil {
					t.Error(err)
				}
			}
		})
	}
	recording.Wait()
	time.Sleep(100 * time.Millisecond) // pace: lists and prunes go on without recorders
	done.Store(true)
	background.Wait()
	for seal(t, store, 10_000) > 0 {
	}

	if len(accepted) != recorders*batches*size {
		t.Fatalf("%d entries were accepted", len(accepted))
	}
	there := map[repo.ID]bool{}
	for _, e := range listed(t, store, repo.AuditFilter{OldestFirst: true}) {
		there[e.ID] = true
	}
	leaves := map[repo.ID]int{}
	var gone int64
	for from := int64(0); ; {
		page, err := store.AuditLog().Leaves(t.Context(), from, repo.MaxPageSize)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		from += int64(len(page))
		for _, leaf := range page {
			leaves[leaf.EntryID]++
			if there[leaf.EntryID] == (leaf.Entry == nil) || (leaf.Entry == nil) == leaf.PrunedBy.IsZero() {
				t.Errorf("leaf %d does not match the trail", leaf.Sequence)
			}
			if leaf.Entry == nil {
				gone++
				if !there[leaf.PrunedBy] {
					t.Errorf("no entry records the prune that removed the entry of leaf %d", leaf.Sequence)
				}
			}
		}
	}
	for id := range accepted {
		if leaves[id] != 1 {
			t.Errorf("an accepted entry has %d leaves", leaves[id])
		}
	}
	if gone != pruned || gone == 0 {
		t.Errorf("%d entries are gone, but the prunes recorded %d", gone, pruned)
	}
	strays, err := store.AuditLog().Strays(t.Context(), 10)
	if err != nil || len(strays) != 0 {
		t.Errorf("strays: %d, %v", len(strays), err)
	}
	t.Logf("%d entries, of which %d pruned, %d leaves", len(accepted), gone, len(leaves))
}

// listed reads a list to its end and checks that it is in order.
func listed(t *testing.T, store repo.Store, filter repo.AuditFilter) []repo.AuditEntry {
	t.Helper()
	var all []repo.AuditEntry
	for page := (repo.Page{Limit: 333}); ; {
		got, err := store.Audit().List(t.Context(), filter, page)
		if err != nil {
			t.Error(err)
			return nil
		}
		all = append(all, got.Items...)
		if page.After = got.Next; got.Next == "" {
			break
		}
	}
	if !slices.IsSortedFunc(all, func(a, b repo.AuditEntry) int {
		c := a.OccurredAt.Compare(b.OccurredAt)
		if c == 0 {
			c = bytes.Compare(a.ID[:], b.ID[:])
		}
		if c == 0 {
			t.Error("an entry is listed twice")
		}
		if !filter.OldestFirst {
			return -c
		}
		return c
	}) {
		t.Error("a list is out of order")
	}
	return all
}

// An entry whose transaction commits late is still sealed. A reader that continues
// from the last time or id it has seen misses it.
func TestEntryCommittedLateIsSealed(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	conn := pgtest.Connect(t, databaseURL)
	naive := func(after time.Time) (seen []repo.ID, last time.Time) {
		rows, err := conn.Query(t.Context(), "SELECT id, recorded_at FROM audit_entries WHERE recorded_at > $1 ORDER BY recorded_at", after)
		if err != nil {
			t.Fatal(err)
		}
		last = after
		defer rows.Close()
		for rows.Next() {
			var id [16]byte
			if err := rows.Scan(&id, &last); err != nil {
				t.Fatal(err)
			}
			seen = append(seen, id)
		}
		return seen, last
	}
	late, early := entryAt(time.Now()), entryAt(time.Now())
	var cursor time.Time
	var seen []repo.ID
	sealed := 0
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if err := tx.Audit().Record(ctx, late); err != nil {
			return err
		}
		if err := store.Audit().Record(t.Context(), early); err != nil { // by another client
			return err
		}
		seen, cursor = naive(cursor)
		sealed = seal(t, store, 100)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	more, _ := naive(cursor)
	if seen = append(seen, more...); len(seen) != 1 {
		t.Errorf("the naive reader saw %d, so this test checks nothing", len(seen))
	}
	if sealed += seal(t, store, 100); sealed != 2 {
		t.Errorf("%d entries were sealed", sealed)
	}
}
