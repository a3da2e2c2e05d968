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

	"github.com/seed-df90f812/agentstore/repo"
)

func trailTests() []test {
	return []test{
		{"Transactions", testTrailTransactions},
		{"Sink", testTrailSink},
		{"SinkClosed", testTrailSinkClosed},
		{"Quarantine", testTrailQuarantine},
		{"Concurrent", testTrailConcurrent},
		{"Closed", testTrailClosed},
	}
}

func keepingTests() []test {
	return []test{
		{"Holds", testTrailHolds},
		{"HoldsInvalid", testTrailHoldsInvalid},
		{"OneIDAtTwoTimes", testTrailOneIDAtTwoTimes},
		{"Seal", testTrailSeal},
		{"SealFails", testTrailSealFails},
		{"SealAlone", testTrailSealAlone},
		{"Waiting", testTrailWaiting},
		{"LeafMissing", testTrailLeafMissing},
		{"Whole", testTrailWhole},
		{"Prune", testTrailPrune},
		{"PruneHeld", testTrailPruneHeld},
		{"PruneUnsealed", testTrailPruneUnsealed},
		{"PruneAgain", testTrailPruneAgain},
		{"PruneInvalid", testTrailPruneInvalid},
		{"PruneKeepsRecords", testTrailPruneKeepsRecords},
		{"PruneStates", testTrailPruneStates},
		{"Identity", testTrailIdentity},
		{"SealBytes", testTrailSealBytes},
		{"SealKeeps", testTrailSealKeeps},
	}
}

// trailType is an event type of one test's own: what it prunes is its own, too,
// also where stores share a database.
func trailType(t *testing.T) repo.EventType {
	t.Helper()
	kind := repo.EventType("test_" + strings.ToLower(repo.NewID().String()))
	if err := repo.RegisterEventType(kind); err != nil {
		t.Fatal(err)
	}
	return kind
}

// trailEntries are of one type and plan, a second apart, oldest first.
func trailEntries(kind repo.EventType, count int) []repo.AuditEntry {
	plan := repo.NewID()
	start := time.Now().Add(-24 * time.Hour).UTC().Truncate(time.Microsecond)
	entries := make([]repo.AuditEntry, count)
	for i := range entries {
		entries[i] = auditEntry()
		entries[i].Type, entries[i].PlanID = kind, plan
		entries[i].OccurredAt = start.Add(time.Duration(i) * time.Second)
	}
	return entries
}

// trailHash stands for a leaf's hash: the suite does not hash as package audit does.
func trailHash(e repo.SealedEntry) [32]byte {
	return sha256.Sum256(slices.Concat(e.ID[:], e.Nonce[:], e.Details))
}

// trailMake makes of unsealed entries what a sealer would: the tree has one stored
// hash for each leaf.
func trailMake(u repo.AuditUnsealed) repo.AuditSeal {
	seal := repo.AuditSeal{FirstHash: u.Size}
	for _, e := range u.Entries {
		seal.Leaves = append(seal.Leaves, trailHash(e))
	}
	seal.Hashes = seal.Leaves
	size := u.Size + int64(len(u.Entries))
	seal.Checkpoint = repo.AuditCheckpoint{Size: size, Root: seal.Leaves[len(seal.Leaves)-1], Note: []byte("note")}
	return seal
}

// trailSeal seals until the entries are, beside other sealers.
func trailSeal(t *testing.T, store repo.Store, entries ...repo.AuditEntry) {
	t.Helper()
	trail := store.Trail()
	for _, e := range entries {
		for {
			_, err := trail.Leaf(t.Context(), e.ID)
			if err == nil {
				break
			}
			if !errors.Is(err, repo.ErrNotFound) {
				t.Fatal(err)
			}
			_, err = trail.Seal(t.Context(), 1000, func(u repo.AuditUnsealed, _ repo.HashReader) (repo.AuditSeal, error) {
				return trailMake(u), nil
			})
			if errors.Is(err, repo.ErrContention) {
				time.Sleep(time.Millisecond)
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func trailSink(t *testing.T, store repo.Store) repo.AuditSink {
	t.Helper()
	sink, err := store.Trail().Sink(t.Context())
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

// An entry goes with the unit of work that it tells of.
func testTrailTransactions(t *testing.T, store repo.Store) {
	e := auditEntry()
	failed := errors.New("failed")
	inTx := func(result error) error {
		return store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			if err := tx.Audit().Record(ctx, e); err != nil {
				return err
			}
			if _, err := tx.Audit().Entry(ctx, e.ID); err != nil {
				t.Errorf("in its own unit of work: %v", err)
			}
			got, err := tx.Audit().List(ctx, repo.AuditFilter{PlanID: e.PlanID}, repo.NewestFirst, repo.Page{})
			if err != nil || len(got.Entries) != 1 {
				t.Errorf("in its own unit of work: %d entries, %v", len(got.Entries), err)
			}
			if _, err := store.Audit().Entry(t.Context(), e.ID); !errors.Is(err, repo.ErrNotFound) {
				t.Errorf("outside of its unit of work: %v", err)
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

func testTrailSink(t *testing.T, store repo.Store) {
	sink := trailSink(t, store)
	entries := trailEntries(trailType(t), 5)
	for _, test := range []struct {
		batch []repo.AuditEntry
		want  repo.AuditRecorded
	}{
		{entries[:3], repo.AuditRecorded{Written: 3}},
		{entries[:3], repo.AuditRecorded{Known: 3}},
		{entries[2:], repo.AuditRecorded{Written: 2, Known: 1}},
		{append(trailEntries(trailType(t), 1), entries[0], entries[0]), repo.AuditRecorded{Written: 1, Known: 2}},
	} {
		if got, err := sink.Record(t.Context(), test.batch); err != nil || got != test.want {
			t.Errorf("recorded %+v, %v, want %+v", got, err, test.want)
		}
	}
	got := listAll(t, store.Audit(), repo.AuditFilter{PlanID: entries[0].PlanID}, repo.OldestFirst, 10)
	wantEntries(t, "recorded", got, entries)

	bad := auditEntry()
	bad.Type = secret
	_, err := sink.Record(t.Context(), []repo.AuditEntry{bad})
	wantInvalid(t, err, "entries[0].type")

	// An ended context is no more than that: the sink goes on afterwards.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sink.Record(ctx, trailEntries(trailType(t), 1)); err == nil {
		t.Error("recorded with an ended context")
	}
	if got, err := sink.Record(t.Context(), trailEntries(trailType(t), 1)); err != nil || got.Written != 1 {
		t.Errorf("afterwards: %+v, %v", got, err)
	}
}

func testTrailSinkClosed(t *testing.T, store repo.Store) {
	sink := trailSink(t, store)
	for range 2 {
		if err := sink.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := sink.Record(t.Context(), trailEntries(trailType(t), 1)); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("Record: %v", err)
	}
	if err := sink.Quarantine(t.Context(), repo.AuditPoison{ID: repo.NewID(), Reason: "x"}); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("Quarantine: %v", err)
	}
}

func testTrailQuarantine(t *testing.T, store repo.Store) {
	sink := trailSink(t, store)
	poison := repo.AuditPoison{ID: repo.NewID(), Document: []byte("\x00\xff{"), Reason: "refused"}
	for range 2 {
		if err := sink.Quarantine(t.Context(), poison); err != nil {
			t.Fatal(err)
		}
	}
	_, err := store.Audit().Entry(t.Context(), poison.ID)
	wantNotFound(t, err, "audit entry", poison.ID)
}

// Many record the same entries at once, each in its own order: they are there once.
func testTrailConcurrent(t *testing.T, store repo.Store) {
	const recorders = 8
	entries := trailEntries(trailType(t), 50)
	var written, known [recorders]int
	var wg sync.WaitGroup
	for i := range recorders {
		sink := trailSink(t, store)
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
	got := listAll(t, store.Audit(), repo.AuditFilter{PlanID: entries[0].PlanID}, repo.OldestFirst, 100)
	wantEntries(t, "recorded", got, entries)
}

func testTrailHolds(t *testing.T, store repo.Store) {
	trail := store.Trail()
	plan, session := repo.AuditHold{PlanID: repo.NewID(), Reason: "a lawsuit"}, repo.AuditHold{SessionID: repo.NewID(), Reason: "another"}
	own := func() []repo.AuditHold {
		holds, err := trail.Holds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(holds, func(h repo.AuditHold) bool { return h.PlanID != plan.PlanID && h.SessionID != session.SessionID })
	}
	for range 2 { // may be repeated
		for _, hold := range []repo.AuditHold{plan, session} {
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
		if err := trail.Release(t.Context(), repo.AuditHold{PlanID: plan.PlanID}); err != nil {
			t.Fatal(err)
		}
	}
	if holds := own(); len(holds) != 1 || holds[0].SessionID != session.SessionID {
		t.Errorf("there are the holds %+v", holds)
	}
}

func testTrailHoldsInvalid(t *testing.T, store repo.Store) {
	for field, hold := range map[string]repo.AuditHold{
		"hold":   {Reason: secret},
		"reason": {PlanID: repo.NewID()},
	} {
		wantInvalid(t, store.Trail().Hold(t.Context(), hold), field)
	}
	both := repo.AuditHold{PlanID: repo.NewID(), SessionID: repo.NewID(), Reason: secret}
	wantInvalid(t, store.Trail().Hold(t.Context(), both), "hold")
	wantInvalid(t, store.Trail().Release(t.Context(), both), "hold")
}

func testTrailSeal(t *testing.T, store repo.Store) {
	trail := store.Trail()
	entries := trailEntries(trailType(t), 20)
	record(t, store.Audit(), entries...)
	trailSeal(t, store, entries...)
	checkpoint, err := trail.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if checkpoint.Size < 20 || string(checkpoint.Note) != "note" || checkpoint.CreatedAt.IsZero() {
		t.Errorf("the checkpoint is %+v", checkpoint)
	}
	last := int64(-1)
	for _, e := range entries {
		leaf, err := trail.Leaf(t.Context(), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		if leaf.EntryID != e.ID || !leaf.OccurredAt.Equal(e.OccurredAt) || !leaf.PrunedBy.IsZero() || leaf.Entry == nil || leaf.Entry.Nonce.IsZero() {
			t.Fatalf("the leaf is %+v", leaf)
		}
		wantEntry(t, leaf.Entry.AuditEntry, e)
		if leaf.Sequence <= last { // one batch, sealed in its order
			t.Errorf("the leaf of a later entry has the sequence %d, the one before %d", leaf.Sequence, last)
		}
		last = leaf.Sequence
		if leaf.Hash != trailHash(*leaf.Entry) {
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
		t.Errorf("a hash that is not there: %v", err)
	}
}

// What fails stores nothing.
func testTrailSealFails(t *testing.T, store repo.Store) {
	trail := store.Trail()
	entries := trailEntries(trailType(t), 3)
	record(t, store.Audit(), entries...)
	failed := errors.New("failed")
	attempt := func(fn func(repo.AuditUnsealed) (repo.AuditSeal, error)) error {
		for {
			called := false
			_, err := trail.Seal(t.Context(), 1000, func(u repo.AuditUnsealed, _ repo.HashReader) (repo.AuditSeal, error) {
				called = true
				return fn(u)
			})
			if called || err != nil && !errors.Is(err, repo.ErrContention) {
				return err
			}
			// Another test has sealed them, or is at it.
			record(t, store.Audit(), trailEntries(entries[0].Type, 1)...)
		}
	}
	if err := attempt(func(repo.AuditUnsealed) (repo.AuditSeal, error) { return repo.AuditSeal{}, failed }); !errors.Is(err, failed) {
		t.Errorf("its own error came back as %v", err)
	}
	for _, spoil := range []func(*repo.AuditSeal){
		func(s *repo.AuditSeal) { s.Leaves = s.Leaves[1:] },
		func(s *repo.AuditSeal) { s.Checkpoint.Size++ },
	} {
		var unsealed repo.AuditUnsealed
		err := attempt(func(u repo.AuditUnsealed) (repo.AuditSeal, error) {
			unsealed = u
			seal := trailMake(u)
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
	trailSeal(t, store, entries...)
}

// A second sealer is turned away while one is at work.
func testTrailSealAlone(t *testing.T, store repo.Store) {
	trail := store.Trail()
	entries := trailEntries(trailType(t), 3)
	record(t, store.Audit(), entries...)
	inside := false
	for !inside {
		_, err := trail.Seal(t.Context(), 1000, func(u repo.AuditUnsealed, _ repo.HashReader) (repo.AuditSeal, error) {
			inside = true
			_, err := trail.Seal(t.Context(), 1000, func(repo.AuditUnsealed, repo.HashReader) (repo.AuditSeal, error) {
				t.Error("two sealers are at work")
				return repo.AuditSeal{}, errors.New("two")
			})
			if !errors.Is(err, repo.ErrContention) {
				t.Errorf("the second sealer got %v", err)
			}
			return trailMake(u), nil
		})
		if err != nil && !errors.Is(err, repo.ErrContention) {
			t.Fatal(err)
		}
		if !inside { // sealed by another test meanwhile
			record(t, store.Audit(), trailEntries(entries[0].Type, 1)...)
		}
	}
}

func testTrailWaiting(t *testing.T, store repo.Store) {
	trail := store.Trail()
	seen := false
	for range 100 { // others seal meanwhile
		before := time.Now()
		entries := trailEntries(trailType(t), 3)
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

func testTrailLeafMissing(t *testing.T, store repo.Store) {
	id := repo.NewID()
	_, err := store.Trail().Leaf(t.Context(), id)
	wantNotFound(t, err, "audit leaf", id)
	_, err = store.Trail().FirstLeaf(t.Context(), id)
	wantNotFound(t, err, "audit leaf", id)
	if leaves, err := store.Trail().Leaves(t.Context(), 1<<40, 10); err != nil || len(leaves) != 0 {
		t.Errorf("past the end: %+v, %v", leaves, err)
	}
	_, err = store.Trail().Leaves(t.Context(), -1, 10)
	wantInvalid(t, err, "from")
}

// Nothing is lost or astray unless somebody tampers.
func testTrailWhole(t *testing.T, store repo.Store) {
	entries := trailEntries(trailType(t), 3)
	record(t, store.Audit(), entries...)
	for range 2 { // unsealed, and sealed
		strays, err := store.Trail().Strays(t.Context(), 10)
		if err != nil || len(strays) != 0 {
			t.Errorf("strays: %+v, %v", strays, err)
		}
		lost, err := store.Trail().Lost(t.Context(), 10)
		if err != nil || len(lost) != 0 {
			t.Errorf("lost: %+v, %v", lost, err)
		}
		trailSeal(t, store, entries...)
	}
}

// trailPrunes are the entries that tell of prunes with this reason.
func trailPrunes(t *testing.T, store repo.Store, actor string) []repo.AuditEntry {
	t.Helper()
	return listAll(t, store.Audit(), repo.AuditFilter{Actor: actor, Type: repo.EventAuditPruned}, repo.OldestFirst, 10)
}

func testTrailPrune(t *testing.T, store repo.Store) {
	trail := store.Trail()
	kind := trailType(t)
	entries, others := trailEntries(kind, 10), trailEntries(trailType(t), 10)
	record(t, store.Audit(), append(others, entries...)...)
	trailSeal(t, store, entries...)
	prune := repo.AuditPrune{
		Before: entries[6].OccurredAt, Types: []repo.EventType{kind}, Actor: randomName(), Reason: "a year has passed", DryRun: true,
	}
	if got, err := trail.Prune(t.Context(), prune); err != nil || got != (repo.AuditPruned{Entries: 6}) {
		t.Fatalf("dry run: %+v, %v", got, err)
	}
	if got := listAll(t, store.Audit(), repo.AuditFilter{Type: kind}, repo.OldestFirst, 100); len(got) != 10 || len(trailPrunes(t, store, prune.Actor)) != 0 {
		t.Fatal("the dry run changed something")
	}
	prune.DryRun = false
	if got, err := trail.Prune(t.Context(), prune); err != nil || got != (repo.AuditPruned{Entries: 6}) {
		t.Fatalf("%+v, %v", got, err)
	}
	wantEntries(t, "what stays", listAll(t, store.Audit(), repo.AuditFilter{Type: kind}, repo.OldestFirst, 3), entries[6:])
	wantEntries(t, "others", listAll(t, store.Audit(), repo.AuditFilter{PlanID: others[0].PlanID}, repo.OldestFirst, 3), others)

	told := trailPrunes(t, store, prune.Actor)
	if len(told) != 1 {
		t.Fatalf("%d entries tell of the prune", len(told))
	}
	var details struct {
		Before time.Time        `json:"before"`
		Types  []repo.EventType `json:"types"`
		Reason string           `json:"reason"`
	}
	if err := json.Unmarshal(told[0].Details, &details); err != nil ||
		!details.Before.Equal(prune.Before) || !slices.Equal(details.Types, prune.Types) || details.Reason != prune.Reason {
		t.Errorf("its details are %s, %v", told[0].Details, err)
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
	// With nothing to do nothing is recorded.
	if got, err := trail.Prune(t.Context(), prune); err != nil || got != (repo.AuditPruned{}) || len(trailPrunes(t, store, prune.Actor)) != 1 {
		t.Errorf("again: %+v, %v", got, err)
	}
}

func testTrailPruneHeld(t *testing.T, store repo.Store) {
	trail := store.Trail()
	kind := trailType(t)
	byPlan, bySession, free := trailEntries(kind, 3), trailEntries(kind, 2), trailEntries(kind, 4)
	bySession[1].SessionID = bySession[0].SessionID
	all := slices.Concat(byPlan, bySession, free)
	record(t, store.Audit(), all...)
	trailSeal(t, store, all...)
	holds := []repo.AuditHold{{PlanID: byPlan[0].PlanID, Reason: "x"}, {SessionID: bySession[0].SessionID, Reason: "x"}}
	for _, hold := range holds {
		if err := trail.Hold(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	}
	prune := repo.AuditPrune{Before: time.Now(), Types: []repo.EventType{kind}}
	for _, prune.DryRun = range []bool{true, false} {
		if got, err := trail.Prune(t.Context(), prune); err != nil || got != (repo.AuditPruned{Entries: 4, Held: 5}) {
			t.Errorf("dry run %t: %+v, %v", prune.DryRun, got, err)
		}
	}
	left := listAll(t, store.Audit(), repo.AuditFilter{Type: kind}, repo.OldestFirst, 2)
	if len(left) != 5 {
		t.Errorf("%d entries are left, want the 5 on hold", len(left))
	}
	for _, hold := range holds {
		if err := trail.Release(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := trail.Prune(t.Context(), prune); err != nil || got != (repo.AuditPruned{Entries: 5}) {
		t.Errorf("after the release: %+v, %v", got, err)
	}
}

func testTrailPruneUnsealed(t *testing.T, store repo.Store) {
	kind := trailType(t)
	sealed := trailEntries(kind, 2)
	record(t, store.Audit(), sealed...)
	trailSeal(t, store, sealed...)
	for range 100 { // others seal meanwhile
		unsealed := trailEntries(kind, 3)
		record(t, store.Audit(), unsealed...)
		got, err := store.Trail().Prune(t.Context(), repo.AuditPrune{Before: time.Now(), Types: []repo.EventType{kind}, DryRun: true})
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

// What was pruned does not come back by being recorded again, as a retry or a
// spool might.
func testTrailPruneAgain(t *testing.T, store repo.Store) {
	kind := trailType(t)
	entries := trailEntries(kind, 2)
	record(t, store.Audit(), entries...)
	trailSeal(t, store, entries...)
	if got, err := store.Trail().Prune(t.Context(), repo.AuditPrune{Before: time.Now(), Types: []repo.EventType{kind}}); err != nil || got.Entries != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := trailSink(t, store).Record(t.Context(), entries); err != nil || got != (repo.AuditRecorded{Known: 2}) {
		t.Errorf("recorded again: %+v, %v", got, err)
	}
	record(t, store.Audit(), entries...)
	if got := listAll(t, store.Audit(), repo.AuditFilter{Type: kind}, repo.OldestFirst, 10); len(got) != 0 {
		t.Errorf("%d entries came back", len(got))
	}
	later := trailEntries(kind, 1) // and the sealer goes on
	record(t, store.Audit(), later...)
	trailSeal(t, store, later...)
}

func testTrailPruneInvalid(t *testing.T, store repo.Store) {
	before := time.Now()
	for field, prune := range map[string]repo.AuditPrune{
		"before":   {},
		"types[1]": {Before: before, Types: []repo.EventType{repo.EventAuthFailure, secret}},
		"types[0]": {Before: before, Types: []repo.EventType{repo.EventAuditGap}},
		"actor":    {Before: before, Actor: tooLong()},
		"reason":   {Before: before, Reason: "\x00" + secret},
	} {
		_, err := store.Trail().Prune(t.Context(), prune)
		wantInvalid(t, err, field)
	}
}

// An id at another time is another entry; by the id alone one gets the earliest.
func testTrailOneIDAtTwoTimes(t *testing.T, store repo.Store) {
	entries := trailEntries(trailType(t), 2)
	entries[1].ID = entries[0].ID
	sink := trailSink(t, store)
	for _, e := range []repo.AuditEntry{entries[1], entries[0]} {
		if got, err := sink.Record(t.Context(), []repo.AuditEntry{e}); err != nil || got != (repo.AuditRecorded{Written: 1}) {
			t.Errorf("recorded %+v, %v", got, err)
		}
	}
	if got, err := sink.Record(t.Context(), entries); err != nil || got != (repo.AuditRecorded{Known: 2}) {
		t.Errorf("recorded again: %+v, %v", got, err)
	}
	wantEntries(t, "both", listAll(t, store.Audit(), repo.AuditFilter{PlanID: entries[0].PlanID}, repo.OldestFirst, 10), entries)
	if got, err := store.Audit().Entry(t.Context(), entries[0].ID); err != nil || !got.OccurredAt.Equal(entries[0].OccurredAt) {
		t.Errorf("by its id: %+v, %v", got, err)
	}
	trailSeal(t, store, entries...)
	if got, err := store.Trail().Leaf(t.Context(), entries[0].ID); err != nil || !got.OccurredAt.Equal(entries[0].OccurredAt) {
		t.Errorf("its leaf: %+v, %v", got, err)
	}
	// The later one was recorded, and sealed, before.
	if got, err := store.Trail().FirstLeaf(t.Context(), entries[0].ID); err != nil || !got.OccurredAt.Equal(entries[1].OccurredAt) {
		t.Errorf("its first leaf: %+v, %v", got, err)
	}
}

// What tells of prunes and gaps is never pruned.
func testTrailPruneKeepsRecords(t *testing.T, store repo.Store) {
	plan := repo.NewID()
	gap, pruned := auditEntry(), auditEntry()
	gap.Type, pruned.Type = repo.EventAuditGap, repo.EventAuditPruned
	pruned.Details = []byte(`{"before":"2000-01-01T00:00:00Z"}`)
	long := time.Date(2003, 5, 6, 7, 8, 9, 0, time.UTC)
	gap.PlanID, pruned.PlanID, gap.OccurredAt, pruned.OccurredAt = plan, plan, long, long
	record(t, store.Audit(), gap, pruned)
	trailSeal(t, store, gap, pruned)
	if _, err := store.Trail().Prune(t.Context(), repo.AuditPrune{Before: long.Add(time.Second)}); err != nil {
		t.Fatal(err)
	}
	if got := listAll(t, store.Audit(), repo.AuditFilter{PlanID: plan}, repo.OldestFirst, 10); len(got) != 2 {
		t.Errorf("%d of 2 are left", len(got))
	}
}

// The entry of a prune states its bounds, holds with them.
func testTrailPruneStates(t *testing.T, store repo.Store) {
	kind := trailType(t)
	entries, held := trailEntries(kind, 2), trailEntries(kind, 1)
	record(t, store.Audit(), append(held, entries...)...)
	trailSeal(t, store, append(held, entries...)...)
	if err := store.Trail().Hold(t.Context(), repo.AuditHold{PlanID: held[0].PlanID, Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	prune := repo.AuditPrune{Before: time.Now(), Types: []repo.EventType{kind}, Actor: randomName()}
	if _, err := store.Trail().Prune(t.Context(), prune); err != nil {
		t.Fatal(err)
	}
	details, err := repo.ParsePruneDetails(trailPrunes(t, store, prune.Actor)[0].Details)
	if err != nil {
		t.Fatal(err)
	}
	kept := repo.AuditKept{Type: kind, PlanID: entries[0].PlanID}
	if !details.Covers(entries[0].OccurredAt, kept) || details.Covers(prune.Before.Add(time.Second), kept) {
		t.Errorf("the bounds are %+v", details)
	}
	if details.Covers(entries[0].OccurredAt, repo.AuditKept{Type: kind, PlanID: held[0].PlanID}) {
		t.Error("what was on hold is covered")
	}
	if details.Covers(entries[0].OccurredAt, repo.AuditKept{Type: repo.EventAuthFailure}) {
		t.Error("another type is covered")
	}
}

// Which log it is does not change.
func testTrailIdentity(t *testing.T, store repo.Store) {
	first, err := store.Trail().Identity(t.Context())
	if err != nil || first.IsZero() {
		t.Fatalf("%s, %v", first, err)
	}
	if again, err := store.Trail().Identity(t.Context()); err != nil || again != first {
		t.Errorf("%s, then %s, %v", first, again, err)
	}
}

// A seal has a bound in bytes, and goes on behind it.
func testTrailSealBytes(t *testing.T, store repo.Store) {
	large := trailEntries(trailType(t), 20)
	details := []byte(`{"text":"` + strings.Repeat("x", 1<<20-100) + `"}`)
	for i := range large {
		large[i].Details = details
		record(t, store.Audit(), large[i])
	}
	for done, more := false, true; !done; {
		_, err := store.Trail().Seal(t.Context(), 10_000, func(u repo.AuditUnsealed, _ repo.HashReader) (repo.AuditSeal, error) {
			total := 0
			for _, e := range u.Entries {
				total += len(e.Details)
				done = done || e.ID == large[19].ID
			}
			if total > repo.MaxSealBytes {
				t.Errorf("a seal has %d bytes", total)
			}
			more = u.More
			return trailMake(u), nil
		})
		if err != nil && !errors.Is(err, repo.ErrContention) {
			t.Fatal(err)
		}
		if _, err := store.Trail().Leaf(t.Context(), large[19].ID); err == nil {
			break // perhaps sealed by another test
		}
		if !more {
			t.Fatal("nothing is said to wait behind it")
		}
	}
	trailSeal(t, store, large...)
}

// A leaf of version 2 keeps what the bounds of a prune need when its entry goes.
func testTrailSealKeeps(t *testing.T, store repo.Store) {
	kind := trailType(t)
	entries := trailEntries(kind, 1)
	record(t, store.Audit(), entries...)
	ours := false
	for !ours {
		_, err := store.Trail().Seal(t.Context(), 1000, func(u repo.AuditUnsealed, _ repo.HashReader) (repo.AuditSeal, error) {
			seal := trailMake(u)
			seal.Hidden = seal.Leaves
			for _, e := range u.Entries {
				ours = ours || e.ID == entries[0].ID
			}
			return seal, nil
		})
		if err != nil && !errors.Is(err, repo.ErrContention) {
			t.Fatal(err)
		}
		if _, err := store.Trail().Leaf(t.Context(), entries[0].ID); err == nil && !ours {
			return // sealed by another test, which keeps nothing
		}
	}
	if _, err := store.Trail().Prune(t.Context(), repo.AuditPrune{Before: time.Now(), Types: []repo.EventType{kind}}); err != nil {
		t.Fatal(err)
	}
	leaf, err := store.Trail().Leaf(t.Context(), entries[0].ID)
	want := repo.AuditKept{Type: kind, PlanID: entries[0].PlanID, SessionID: entries[0].SessionID, Hidden: leaf.Hash}
	if err != nil || leaf.Entry != nil || leaf.Version != 2 || leaf.Kept != want {
		t.Errorf("the leaf is %+v, %v, want it to keep %+v", leaf, err, want)
	}
}

func testTrailClosed(t *testing.T, store repo.Store) {
	closeStore(t, store)
	trail := store.Trail()
	_, sink := trail.Sink(t.Context())
	_, prune := trail.Prune(t.Context(), repo.AuditPrune{Before: time.Now()})
	_, holds := trail.Holds(t.Context())
	_, seal := trail.Seal(t.Context(), 1, nil)
	_, leaf := trail.Leaf(t.Context(), repo.NewID())
	_, entry := store.Audit().Entry(t.Context(), repo.NewID())
	_, list := store.Audit().List(t.Context(), repo.AuditFilter{}, repo.NewestFirst, repo.Page{})
	for operation, err := range map[string]error{
		"Sink": sink, "Prune": prune, "Holds": holds, "Seal": seal, "Leaf": leaf, "Entry": entry, "List": list,
		"Hold":   trail.Hold(t.Context(), repo.AuditHold{PlanID: repo.NewID(), Reason: "x"}),
		"Record": store.Audit().Record(t.Context(), auditEntry()),
	} {
		if !errors.Is(err, repo.ErrClosed) {
			t.Errorf("%s on a closed store: %v", operation, err)
		}
	}
}
