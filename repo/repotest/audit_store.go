package repotest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func auditSinkTests() []test {
	return []test{
		{"Transactions", testAuditTransactions},
		{"Sink", testAuditSink},
		{"SinkClosed", testAuditSinkClosed},
		{"Quarantine", testAuditQuarantine},
		{"Concurrent", testAuditConcurrent},
		{"Closed", testAuditClosed},
	}
}

func auditStoreTests() []test {
	return []test{
		{"Holds", testAuditHolds},
		{"HoldsInvalid", testAuditHoldsInvalid},
		{"Seal", testAuditSeal},
		{"SealFails", testAuditSealFails},
		{"SealAlone", testAuditSealAlone},
		{"Waiting", testAuditWaiting},
		{"LeafMissing", testAuditLeafMissing},
		{"Whole", testAuditWhole},
		{"Prune", testAuditPrune},
		{"PruneHeld", testAuditPruneHeld},
		{"PruneUnsealed", testAuditPruneUnsealed},
		{"PruneAgain", testAuditPruneAgain},
		{"PruneInvalid", testAuditPruneInvalid},
		{"PruneKeepsRecords", testAuditPruneKeepsRecords},
		{"PruneStates", testAuditPruneStates},
		{"Identity", testAuditIdentity},
		{"SealBytes", testAuditSealBytes},
		{"SealKeeps", testAuditSealKeeps},
	}
}

// auditType is an event type that only one test uses, so that it prunes only its
// own entries even if stores share a database.
func auditType(t *testing.T) string {
	t.Helper()
	kind := "test_" + strings.ReplaceAll(repo.NewID().String(), "-", "")
	if err := events.Register(kind); err != nil {
		t.Fatal(err)
	}
	return kind
}

// auditEntries are of one type and plan, a second apart, oldest first.
func auditEntries(kind string, count int) []repo.AuditEntry {
	plan := repo.NewID()
	start := time.Now().Add(-24 * time.Hour).UTC().Truncate(time.Microsecond)
	entries := make([]repo.AuditEntry, count)
	for i := range entries {
		entries[i] = auditEntry(nil)
		entries[i].Type, entries[i].PlanID = kind, plan
		entries[i].OccurredAt = start.Add(time.Duration(i) * time.Second)
	}
	return entries
}

// auditHash replaces a leaf's hash: the suite does not hash as package audit does.
func auditHash(e auditlog.Entry) [32]byte {
	return sha256.Sum256(slices.Concat(append(slices.Clone(e.Salts), e.ID[:], e.Details)...))
}

// auditMake makes a seal of unsealed entries as a sealer would: its tree has one
// stored hash for each leaf.
func auditMake(u auditlog.Unsealed) auditlog.Seal {
	seal := auditlog.Seal{FirstHash: u.Size}
	for _, e := range u.Entries {
		seal.Leaves = append(seal.Leaves, auditHash(e))
	}
	seal.Hashes, seal.Hidden = seal.Leaves, seal.Leaves
	size := u.Size + int64(len(u.Entries))
	seal.Checkpoint = auditlog.Checkpoint{Size: size, Root: seal.Leaves[len(seal.Leaves)-1], Note: []byte("note")}
	return seal
}

// auditSeal seals until the entries are sealed, while others may seal too.
func auditSeal(t *testing.T, store repo.Store, entries ...repo.AuditEntry) {
	t.Helper()
	trail := auditLog(store)
	for _, e := range entries {
		for {
			_, err := trail.Leaf(t.Context(), e.ID)
			if err == nil {
				break
			}
			if !errors.Is(err, repo.ErrNotFound) {
				t.Fatal(err)
			}
			_, err = trail.Seal(t.Context(), 1000, func(u auditlog.Unsealed, _ auditlog.HashReader) (auditlog.Seal, error) {
				return auditMake(u), nil
			})
			if errors.Is(err, repo.ErrContention) {
				tick()
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func auditSink(t *testing.T, store repo.Store) auditlog.Sink {
	t.Helper()
	sink, err := auditLog(store).Sink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sink.Close(); err != nil {
			t.Error(err)
		}
	})
	return sink
}

// An entry is committed or rolled back with its transaction.
func testAuditTransactions(t *testing.T, store repo.Store) {
	e := auditEntry(store)
	failed := errors.New("failed")
	inTx := func(result error) error {
		return store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			if err := tx.Audit().Record(ctx, e); err != nil {
				return err
			}
			if _, err := tx.Audit().Entry(ctx, e.ID); err != nil {
				t.Errorf("in its own transaction: %v", err)
			}
			got, err := tx.Audit().List(ctx, repo.AuditFilter{PlanID: e.PlanID}, repo.Page{})
			if err != nil || len(got.Items) != 1 {
				t.Errorf("in its own transaction: %d entries, %v", len(got.Items), err)
			}
			if _, err := store.Audit().Entry(t.Context(), e.ID); !errors.Is(err, repo.ErrNotFound) {
				t.Errorf("outside of its transaction: %v", err)
			}
			return result
		})
	}
	if err := inTx(failed); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	_, err := store.Audit().Entry(t.Context(), e.ID)
	wantNotFound(t, err, "audit entry", e.ID)
	if err := inTx(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Audit().Entry(t.Context(), e.ID); err != nil {
		t.Error(err)
	}
}

func testAuditSink(t *testing.T, store repo.Store) {
	sink := auditSink(t, store)
	entries := auditEntries(auditType(t), 5)
	for _, test := range []struct {
		batch []repo.AuditEntry
		want  auditlog.Recorded
	}{
		{entries[:3], auditlog.Recorded{Written: 3}},
		{entries[:3], auditlog.Recorded{Known: 3}},
		{entries[2:], auditlog.Recorded{Written: 2, Known: 1}},
		{append(auditEntries(auditType(t), 1), entries[0], entries[0]), auditlog.Recorded{Written: 1, Known: 2}},
	} {
		if got, err := sink.Record(t.Context(), test.batch); err != nil || got != test.want {
			t.Errorf("recorded %+v, %v, want %+v", got, err, test.want)
		}
	}
	got := listAll(t, store.Audit(), repo.AuditFilter{PlanID: entries[0].PlanID, OldestFirst: true}, 10)
	wantEntries(t, "recorded", got, entries)

	other := entries[1]
	other.Actor = "another"
	_, err := sink.Record(t.Context(), append(auditEntries(auditType(t), 1), other))
	wantAuditConflict(t, err, other.ID)

	bad := auditEntry(store)
	bad.Type = secret
	_, err = sink.Record(t.Context(), []repo.AuditEntry{bad})
	wantInvalid(t, err, "entries[0].type")

	// The sink remains usable after a context has ended.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sink.Record(ctx, auditEntries(auditType(t), 1)); err == nil {
		t.Error("recorded with an ended context")
	}
	if got, err := sink.Record(t.Context(), auditEntries(auditType(t), 1)); err != nil || got.Written != 1 {
		t.Errorf("afterwards: %+v, %v", got, err)
	}
}

func testAuditSinkClosed(t *testing.T, store repo.Store) {
	sink := auditSink(t, store)
	for range 2 {
		if err := sink.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := sink.Record(t.Context(), auditEntries(auditType(t), 1)); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("Record: %v", err)
	}
	if err := sink.Quarantine(t.Context(), auditlog.Poison{ID: repo.NewID(), Reason: "x"}); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("Quarantine: %v", err)
	}
}

func testAuditQuarantine(t *testing.T, store repo.Store) {
	sink := auditSink(t, store)
	poison := auditlog.Poison{ID: repo.NewID(), Document: []byte("\x00\xff{"), Reason: "refused"}
	for range 2 {
		if err := sink.Quarantine(t.Context(), poison); err != nil {
			t.Fatal(err)
		}
	}
	poison.Document = []byte("another with this id")
	if err := sink.Quarantine(t.Context(), poison); err != nil {
		t.Error(err)
	}
	_, err := store.Audit().Entry(t.Context(), poison.ID)
	wantNotFound(t, err, "audit entry", poison.ID)
}

// Many record the same entries concurrently, each in another order: each entry is
// stored once.
func testAuditConcurrent(t *testing.T, store repo.Store) {
	const recorders = 8
	entries := auditEntries(auditType(t), 50)
	var written, known [recorders]int
	var wg sync.WaitGroup
	for i := range recorders {
		sink := auditSink(t, store)
		wg.Go(func() {
			for j := range entries {
				// Single entries: batches that overlap in different orders may
				// deadlock, which their recorder would have to retry.
				e := entries[(j*7+i*13)%len(entries)]
				got, err := sink.Record(t.Context(), []repo.AuditEntry{e})
				if err != nil {
					t.Error(err)
					return
				}
				written[i] += got.Written
				known[i] += got.Known
			}
		})
	}
	wg.Wait()
	sum := func(counts [recorders]int) (sum int) {
		for _, count := range counts {
			sum += count
		}
		return sum
	}
	if sum(written) != len(entries) || sum(known) != (recorders-1)*len(entries) {
		t.Errorf("%d were written and %d known of %d, by %d", sum(written), sum(known), len(entries), recorders)
	}
	got := listAll(t, store.Audit(), repo.AuditFilter{PlanID: entries[0].PlanID, OldestFirst: true}, 100)
	wantEntries(t, "recorded", got, entries)
}

func testAuditHolds(t *testing.T, store repo.Store) {
	trail := auditLog(store)
	id := repo.NewID() // a plan may have the id of a session
	plan, session := auditlog.Hold{PlanID: id, Reason: "a lawsuit"}, auditlog.Hold{SessionID: id, Reason: "another"}
	own := func() []auditlog.Hold {
		holds, err := trail.Holds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(holds, func(h auditlog.Hold) bool { return h.PlanID != plan.PlanID && h.SessionID != session.SessionID })
	}
	for range 2 { // may be repeated
		for _, hold := range []auditlog.Hold{plan, session} {
			if err := trail.Hold(t.Context(), hold); err != nil {
				t.Fatal(err)
			}
		}
	}
	holds := own()
	if len(holds) != 2 {
		t.Fatalf("there are %d holds", len(holds))
	}
	for _, hold := range holds {
		if hold.CreatedAt.IsZero() {
			t.Error("a hold has no time")
		}
		hold.CreatedAt = time.Time{}
		if hold != plan && hold != session {
			t.Errorf("there is a hold %+v", hold)
		}
	}
	for range 2 {
		if err := trail.Release(t.Context(), auditlog.Hold{PlanID: plan.PlanID}); err != nil {
			t.Fatal(err)
		}
	}
	if holds := own(); len(holds) != 1 || holds[0].SessionID != session.SessionID {
		t.Errorf("there are the holds %+v", holds)
	}
}

func testAuditHoldsInvalid(t *testing.T, store repo.Store) {
	for field, hold := range map[string]auditlog.Hold{
		"hold":   {Reason: secret},
		"reason": {PlanID: repo.NewID()},
	} {
		wantInvalid(t, auditLog(store).Hold(t.Context(), hold), field)
	}
	both := auditlog.Hold{PlanID: repo.NewID(), SessionID: repo.NewID(), Reason: secret}
	wantInvalid(t, auditLog(store).Hold(t.Context(), both), "hold")
	wantInvalid(t, auditLog(store).Release(t.Context(), both), "hold")
}

func testAuditSeal(t *testing.T, store repo.Store) {
	trail := auditLog(store)
	entries := auditEntries(auditType(t), 20)
	record(t, store.Audit(), entries...)
	auditSeal(t, store, entries...)
	checkpoint, err := trail.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if checkpoint.Size < 20 || string(checkpoint.Note) != "note" || checkpoint.CreatedAt.IsZero() {
		t.Errorf("the checkpoint is %+v", checkpoint)
	}
	sequences := map[int64]bool{}
	for _, e := range entries {
		leaf, err := trail.Leaf(t.Context(), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		if leaf.EntryID != e.ID || !leaf.OccurredAt.Equal(e.OccurredAt) || !leaf.PrunedBy.IsZero() || leaf.Entry == nil || !salted(*leaf.Entry) {
			t.Fatalf("the leaf is %+v", leaf)
		}
		wantEntry(t, leaf.Entry.AuditEntry, e)
		if sequences[leaf.Sequence] {
			t.Errorf("two leaves have the sequence %d", leaf.Sequence)
		}
		sequences[leaf.Sequence] = true
		if leaf.Hash != auditHash(*leaf.Entry) {
			t.Error("the leaf has another hash")
		}
		hashes, err := trail.Hashes(t.Context(), []int64{leaf.Sequence, 0, leaf.Sequence})
		if err != nil || len(hashes) != 3 || hashes[0] != leaf.Hash || hashes[2] != leaf.Hash {
			t.Errorf("the stored hashes are %x, %v", hashes, err)
		}
		leaves, err := trail.Leaves(t.Context(), leaf.Sequence, 1)
		if err != nil || len(leaves) != 1 || leaves[0].EntryID != e.ID {
			t.Errorf("the leaves from %d on are %+v, %v", leaf.Sequence, leaves, err)
		}
	}
	// All leaves, in order and dense.
	for from := int64(0); from < checkpoint.Size; {
		leaves, err := trail.Leaves(t.Context(), from, 7)
		if err != nil || len(leaves) == 0 {
			t.Fatalf("from %d on: %v", from, err)
		}
		for _, leaf := range leaves {
			if leaf.Sequence != from {
				t.Fatalf("the leaf after %d is %d", from-1, leaf.Sequence)
			}
			from++
		}
	}
	if _, err := trail.Hashes(t.Context(), []int64{1 << 40}); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("a hash that does not exist: %v", err)
	}
}

// salted reports whether each field that can be erased has a salt of its own.
func salted(e auditlog.Entry) bool {
	salts := map[string]bool{}
	for _, salt := range e.Salts {
		if len(salt) == 16 {
			salts[string(salt)] = true
		}
	}
	return len(salts) == 4 && len(e.Salts) == 4
}

// A seal that fails stores nothing.
func testAuditSealFails(t *testing.T, store repo.Store) {
	trail := auditLog(store)
	entries := auditEntries(auditType(t), 3)
	record(t, store.Audit(), entries...)
	failed := errors.New("failed")
	attempt := func(fn func(auditlog.Unsealed) (auditlog.Seal, error)) error {
		for {
			called := false
			_, err := trail.Seal(t.Context(), 1000, func(u auditlog.Unsealed, _ auditlog.HashReader) (auditlog.Seal, error) {
				called = true
				return fn(u)
			})
			if called || err != nil && !errors.Is(err, repo.ErrContention) {
				return err
			}
			// Another test has sealed them, or is sealing them.
			record(t, store.Audit(), auditEntries(entries[0].Type, 1)...)
		}
	}
	if err := attempt(func(auditlog.Unsealed) (auditlog.Seal, error) { return auditlog.Seal{}, failed }); !errors.Is(err, failed) {
		t.Errorf("its own error came back as %v", err)
	}
	for _, spoil := range []func(*auditlog.Seal){
		func(s *auditlog.Seal) { s.Leaves = s.Leaves[1:] },
		func(s *auditlog.Seal) { s.Hidden = nil },
		func(s *auditlog.Seal) { s.Checkpoint.Size++ },
	} {
		var unsealed auditlog.Unsealed
		err := attempt(func(u auditlog.Unsealed) (auditlog.Seal, error) {
			unsealed = u
			seal := auditMake(u)
			spoil(&seal)
			return seal, nil
		})
		wantInvalid(t, err, "seal")
		if len(unsealed.Entries) == 0 {
			t.Error("there was nothing to seal")
		}
	}
	for _, limit := range []int{0, -1, 10_001} {
		_, err := trail.Seal(t.Context(), limit, nil)
		wantInvalid(t, err, "limit")
	}
	auditSeal(t, store, entries...)
}

// A second sealer is refused while one is running.
func testAuditSealAlone(t *testing.T, store repo.Store) {
	trail := auditLog(store)
	entries := auditEntries(auditType(t), 3)
	record(t, store.Audit(), entries...)
	inside := false
	for !inside {
		_, err := trail.Seal(t.Context(), 1000, func(u auditlog.Unsealed, _ auditlog.HashReader) (auditlog.Seal, error) {
			inside = true
			_, err := trail.Seal(t.Context(), 1000, func(auditlog.Unsealed, auditlog.HashReader) (auditlog.Seal, error) {
				t.Error("two sealers are at work")
				return auditlog.Seal{}, errors.New("two")
			})
			if !errors.Is(err, repo.ErrContention) {
				t.Errorf("the second sealer got %v", err)
			}
			return auditMake(u), nil
		})
		if err != nil && !errors.Is(err, repo.ErrContention) {
			t.Fatal(err)
		}
		if !inside { // another test has sealed it
			record(t, store.Audit(), auditEntries(entries[0].Type, 1)...)
		}
	}
}

func testAuditWaiting(t *testing.T, store repo.Store) {
	trail := auditLog(store)
	seen := false
	for range 100 { // others seal meanwhile
		before := time.Now()
		entries := auditEntries(auditType(t), 3)
		record(t, store.Audit(), entries...)
		waiting, err := trail.Waiting(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if waiting.Entries >= 3 && !waiting.Oldest.IsZero() && waiting.Oldest.Before(before.Add(time.Minute)) {
			seen = true
			break
		}
	}
	if !seen {
		t.Error("no entry waits")
	}
	_, err := trail.Waiting(t.Context(), -1)
	wantInvalid(t, err, "limit")
}

func testAuditLeafMissing(t *testing.T, store repo.Store) {
	id := repo.NewID()
	_, err := auditLog(store).Leaf(t.Context(), id)
	wantNotFound(t, err, "audit leaf", id)
	if leaves, err := auditLog(store).Leaves(t.Context(), 1<<40, 10); err != nil || len(leaves) != 0 {
		t.Errorf("after the end: %+v, %v", leaves, err)
	}
	_, err = auditLog(store).Leaves(t.Context(), -1, 10)
	wantInvalid(t, err, "from")
}

// No entry is lost or stray unless the tables are tampered with.
func testAuditWhole(t *testing.T, store repo.Store) {
	entries := auditEntries(auditType(t), 3)
	record(t, store.Audit(), entries...)
	for range 2 { // unsealed, and sealed
		strays, err := auditLog(store).Strays(t.Context(), 10)
		if err != nil || len(strays) != 0 {
			t.Errorf("strays: %+v, %v", strays, err)
		}
		lost, err := auditLog(store).Lost(t.Context(), 10)
		if err != nil || len(lost) != 0 {
			t.Errorf("lost: %+v, %v", lost, err)
		}
		auditSeal(t, store, entries...)
	}
}

// auditPrunes returns the entries that record prunes by this actor.
func auditPrunes(t *testing.T, store repo.Store, actor string) []repo.AuditEntry {
	t.Helper()
	return listAll(t, store.Audit(), repo.AuditFilter{Actor: actor, Type: events.AuditPruned, OldestFirst: true}, 10)
}

func testAuditPrune(t *testing.T, store repo.Store) {
	trail := auditLog(store)
	kind := auditType(t)
	entries, others := auditEntries(kind, 10), auditEntries(auditType(t), 10)
	record(t, store.Audit(), append(others, entries...)...)
	auditSeal(t, store, entries...)
	prune := auditlog.Prune{
		Before: entries[6].OccurredAt, Types: []string{kind}, Actor: randomName(), Reason: "a year has passed", DryRun: true,
	}
	if got, err := trail.Prune(t.Context(), prune); err != nil || got != (auditlog.Pruned{Entries: 6}) {
		t.Fatalf("dry run: %+v, %v", got, err)
	}
	if got := listAll(t, store.Audit(), repo.AuditFilter{Type: kind, OldestFirst: true}, 100); len(got) != 10 || len(auditPrunes(t, store, prune.Actor)) != 0 {
		t.Fatal("the dry run changed something")
	}
	prune.DryRun = false
	if got, err := trail.Prune(t.Context(), prune); err != nil || got != (auditlog.Pruned{Entries: 6}) {
		t.Fatalf("%+v, %v", got, err)
	}
	wantEntries(t, "what stays", listAll(t, store.Audit(), repo.AuditFilter{Type: kind, OldestFirst: true}, 3), entries[6:])
	wantEntries(t, "others", listAll(t, store.Audit(), repo.AuditFilter{PlanID: others[0].PlanID, OldestFirst: true}, 3), others)

	told := auditPrunes(t, store, prune.Actor)
	if len(told) != 1 {
		t.Fatalf("%d entries record the prune, want 1", len(told))
	}
	var details struct {
		Before time.Time `json:"before"`
		Types  []string  `json:"types"`
		Reason string    `json:"reason"`
	}
	if err := json.Unmarshal(told[0].Details, &details); err != nil ||
		!details.Before.Equal(prune.Before) || !slices.Equal(details.Types, prune.Types) || details.Reason != prune.Reason {
		t.Errorf("the prune's details are %s, %v", told[0].Details, err)
	}
	for i, e := range entries {
		leaf, err := trail.Leaf(t.Context(), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		if gone := i < 6; gone != (leaf.Entry == nil) || gone != (leaf.PrunedBy == told[0].ID) || gone == leaf.PrunedBy.IsZero() {
			t.Errorf("the leaf of entry %d is %+v", i, leaf)
		}
	}
	// A prune that removes nothing records nothing.
	if got, err := trail.Prune(t.Context(), prune); err != nil || got != (auditlog.Pruned{}) || len(auditPrunes(t, store, prune.Actor)) != 1 {
		t.Errorf("again: %+v, %v", got, err)
	}
}

func testAuditPruneHeld(t *testing.T, store repo.Store) {
	trail := auditLog(store)
	kind := auditType(t)
	byPlan, bySession, free := auditEntries(kind, 3), auditEntries(kind, 2), auditEntries(kind, 4)
	bySession[1].SessionID = bySession[0].SessionID
	free[0].SessionID, free[1].PlanID = byPlan[0].PlanID, bySession[0].SessionID // whose holds are of the other kind
	all := slices.Concat(byPlan, bySession, free)
	record(t, store.Audit(), all...)
	auditSeal(t, store, all...)
	holds := []auditlog.Hold{{PlanID: byPlan[0].PlanID, Reason: "x"}, {SessionID: bySession[0].SessionID, Reason: "x"}}
	for _, hold := range holds {
		if err := trail.Hold(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	}
	prune := auditlog.Prune{Before: time.Now(), Types: []string{kind}}
	for _, prune.DryRun = range []bool{true, false} {
		if got, err := trail.Prune(t.Context(), prune); err != nil || got != (auditlog.Pruned{Entries: 4, Held: 5}) {
			t.Errorf("dry run %t: %+v, %v", prune.DryRun, got, err)
		}
	}
	left := listAll(t, store.Audit(), repo.AuditFilter{Type: kind, OldestFirst: true}, 2)
	if len(left) != 5 {
		t.Errorf("%d entries are left, want the 5 on hold", len(left))
	}
	for _, hold := range holds {
		if err := trail.Release(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := trail.Prune(t.Context(), prune); err != nil || got != (auditlog.Pruned{Entries: 5}) {
		t.Errorf("after the release: %+v, %v", got, err)
	}
}

func testAuditPruneUnsealed(t *testing.T, store repo.Store) {
	kind := auditType(t)
	sealed := auditEntries(kind, 2)
	record(t, store.Audit(), sealed...)
	auditSeal(t, store, sealed...)
	for range 100 { // others seal meanwhile
		unsealed := auditEntries(kind, 3)
		record(t, store.Audit(), unsealed...)
		got, err := auditLog(store).Prune(t.Context(), auditlog.Prune{Before: time.Now(), Types: []string{kind}, DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		if got.Unsealed == 0 {
			sealed = append(sealed, unsealed...)
			continue
		}
		if got.Unsealed != 3 || got.Entries != int64(len(sealed)) {
			t.Errorf("%+v, of %d sealed ones and 3", got, len(sealed))
		}
		return
	}
	t.Error("every entry was sealed at once")
}

// A pruned entry does not come back if it is recorded again, as a retry or a spool
// might.
func testAuditPruneAgain(t *testing.T, store repo.Store) {
	kind := auditType(t)
	entries := auditEntries(kind, 2)
	record(t, store.Audit(), entries...)
	auditSeal(t, store, entries...)
	if got, err := auditLog(store).Prune(t.Context(), auditlog.Prune{Before: time.Now(), Types: []string{kind}}); err != nil || got.Entries != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := auditSink(t, store).Record(t.Context(), entries); err != nil || got != (auditlog.Recorded{Known: 2}) {
		t.Errorf("recorded again: %+v, %v", got, err)
	}
	record(t, store.Audit(), entries...)
	if got := listAll(t, store.Audit(), repo.AuditFilter{Type: kind, OldestFirst: true}, 10); len(got) != 0 {
		t.Errorf("%d pruned entries were recorded again", len(got))
	}
	other := entries[0]
	other.OccurredAt = other.OccurredAt.Add(time.Second)
	wantAuditConflict(t, store.Audit().Record(t.Context(), other), other.ID)
	later := auditEntries(kind, 1) // and sealing continues
	record(t, store.Audit(), later...)
	auditSeal(t, store, later...)
}

func testAuditPruneInvalid(t *testing.T, store repo.Store) {
	before := time.Now()
	for field, prune := range map[string]auditlog.Prune{
		"before":   {},
		"types[1]": {Before: before, Types: []string{events.AuthFailure, secret}},
		"types[0]": {Before: before, Types: []string{events.AuditGap}},
		"types":    {Before: before, Types: []string{}},
		"actor":    {Before: before, Actor: tooLong()},
		"reason":   {Before: before, Reason: "\x00" + secret},
	} {
		_, err := auditLog(store).Prune(t.Context(), prune)
		wantInvalid(t, err, field)
	}
}

// Entries that record prunes and gaps are never pruned.
func testAuditPruneKeepsRecords(t *testing.T, store repo.Store) {
	plan := repo.NewID()
	gap, pruned := auditEntry(store), auditEntry(store)
	gap.Type, pruned.Type = events.AuditGap, events.AuditPruned
	pruned.Details = []byte(`{"before":"2000-01-01T00:00:00Z"}`)
	long := time.Date(2003, 5, 6, 7, 8, 9, 0, time.UTC)
	gap.PlanID, pruned.PlanID, gap.OccurredAt, pruned.OccurredAt = plan, plan, long, long
	record(t, store.Audit(), gap, pruned)
	auditSeal(t, store, gap, pruned)
	if _, err := auditLog(store).Prune(t.Context(), auditlog.Prune{Before: long.Add(time.Second)}); err != nil {
		t.Fatal(err)
	}
	if got := listAll(t, store.Audit(), repo.AuditFilter{PlanID: plan, OldestFirst: true}, 10); len(got) != 2 {
		t.Errorf("%d of 2 entries are left", len(got))
	}
}

// The entry of a prune states its bounds, including holds.
func testAuditPruneStates(t *testing.T, store repo.Store) {
	kind := auditType(t)
	entries, held := auditEntries(kind, 2), auditEntries(kind, 1)
	record(t, store.Audit(), append(held, entries...)...)
	auditSeal(t, store, append(held, entries...)...)
	if err := auditLog(store).Hold(t.Context(), auditlog.Hold{PlanID: held[0].PlanID, Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	prune := auditlog.Prune{Before: time.Now(), Types: []string{kind}, Actor: randomName()}
	if _, err := auditLog(store).Prune(t.Context(), prune); err != nil {
		t.Fatal(err)
	}
	details, err := rules.ParsePruneDetails(auditPrunes(t, store, prune.Actor)[0].Details)
	if err != nil {
		t.Fatal(err)
	}
	kept := auditlog.Kept{Type: kind, PlanID: entries[0].PlanID}
	if !rules.Covers(details, entries[0].OccurredAt, kept) || rules.Covers(details, prune.Before.Add(time.Second), kept) {
		t.Errorf("the bounds are %+v", details)
	}
	if rules.Covers(details, entries[0].OccurredAt, auditlog.Kept{Type: kind, PlanID: held[0].PlanID}) {
		t.Error("the entry on hold is covered")
	}
	if rules.Covers(details, entries[0].OccurredAt, auditlog.Kept{Type: events.AuthFailure}) {
		t.Error("another type is covered")
	}
}

// The identity of the log does not change.
func testAuditIdentity(t *testing.T, store repo.Store) {
	first, err := auditLog(store).Identity(t.Context())
	if err != nil || first.IsZero() {
		t.Fatalf("%s, %v", first, err)
	}
	if again, err := auditLog(store).Identity(t.Context()); err != nil || again != first {
		t.Errorf("%s, then %s, %v", first, again, err)
	}
}

// A seal is bounded in bytes, and the next one continues after it.
func testAuditSealBytes(t *testing.T, store repo.Store) {
	large := auditEntries(auditType(t), 20)
	details := []byte(`{"text":"` + strings.Repeat("x", 1<<20-100) + `"}`)
	for i := range large {
		large[i].Details = details
		record(t, store.Audit(), large[i])
	}
	for done, more := false, true; !done; {
		_, err := auditLog(store).Seal(t.Context(), 10_000, func(u auditlog.Unsealed, _ auditlog.HashReader) (auditlog.Seal, error) {
			total := 0
			for _, e := range u.Entries {
				total += len(e.Details)
				done = done || e.ID == large[19].ID
			}
			if total > auditlog.MaxSealBytes {
				t.Errorf("a seal has %d bytes", total)
			}
			more = u.More
			return auditMake(u), nil
		})
		if err != nil && !errors.Is(err, repo.ErrContention) {
			t.Fatal(err)
		}
		if _, err := auditLog(store).Leaf(t.Context(), large[19].ID); err == nil {
			break // perhaps another test has sealed it
		}
		if !more {
			t.Fatal("the large entry is not sealed, but no more entries wait")
		}
	}
	auditSeal(t, store, large...)
}

// A leaf keeps the fields that the bounds of a prune need when its entry is removed.
func testAuditSealKeeps(t *testing.T, store repo.Store) {
	kind := auditType(t)
	entries := auditEntries(kind, 1)
	record(t, store.Audit(), entries...)
	auditSeal(t, store, entries...)
	sealed, err := auditLog(store).Leaf(t.Context(), entries[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	want := auditlog.Kept{
		RecordedAt: sealed.Entry.RecordedAt, Type: kind, Namespace: entries[0].Namespace,
		PlanID: entries[0].PlanID, SessionID: entries[0].SessionID, Hidden: sealed.Hash,
	}
	if _, err := auditLog(store).Prune(t.Context(), auditlog.Prune{Before: time.Now(), Types: []string{kind}}); err != nil {
		t.Fatal(err)
	}
	leaf, err := auditLog(store).Leaf(t.Context(), entries[0].ID)
	if err != nil || leaf.Entry != nil || leaf.Kept != want {
		t.Errorf("the leaf is %+v, %v, want it to keep %+v", leaf, err, want)
	}
}

func testAuditClosed(t *testing.T, store repo.Store) {
	closeStore(t, store)
	trail := auditLog(store)
	_, sink := trail.Sink(t.Context())
	_, prune := trail.Prune(t.Context(), auditlog.Prune{Before: time.Now()})
	_, holds := trail.Holds(t.Context())
	_, seal := trail.Seal(t.Context(), 1, nil)
	_, leaf := trail.Leaf(t.Context(), repo.NewID())
	_, entry := store.Audit().Entry(t.Context(), repo.NewID())
	_, list := store.Audit().List(t.Context(), repo.AuditFilter{}, repo.Page{})
	for operation, err := range map[string]error{
		"Sink": sink, "Prune": prune, "Holds": holds, "Seal": seal, "Leaf": leaf, "Entry": entry, "List": list,
		"Hold":   trail.Hold(t.Context(), auditlog.Hold{PlanID: repo.NewID(), Reason: "x"}),
		"Record": store.Audit().Record(t.Context(), auditEntry(store)),
	} {
		if !errors.Is(err, repo.ErrClosed) {
			t.Errorf("%s on a closed store: %v", operation, err)
		}
	}
}
