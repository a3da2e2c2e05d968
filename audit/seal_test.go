package audit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// Fake time: the tests with times run in bubbles of synctest.

// tampered is a log that returns falsified data, as a database's owner could make it.
type tampered struct {
	auditlog.Log
	leaf       func(*auditlog.Leaf) bool // false removes the leaf
	hashes     func([][32]byte)
	checkpoint func(*auditlog.Checkpoint)
	strays     []repo.ID
	lost       []repo.ID
}

func (l *tampered) Leaves(ctx context.Context, from int64, limit int) ([]auditlog.Leaf, error) {
	leaves, err := l.Log.Leaves(ctx, from, limit)
	if l.leaf == nil {
		return leaves, err
	}
	kept := leaves[:0]
	for _, leaf := range leaves {
		if l.leaf(&leaf) {
			kept = append(kept, leaf)
		}
	}
	// Fill the page: a short page would be taken for the last one.
	if missing := len(leaves) - len(kept); missing > 0 && len(leaves) == limit {
		more, err := l.Log.Leaves(ctx, leaves[len(leaves)-1].Sequence+1, missing)
		return append(kept, more...), err
	}
	return kept, err
}

func (l *tampered) Hashes(ctx context.Context, indexes []int64) ([][32]byte, error) {
	hashes, err := l.Log.Hashes(ctx, indexes)
	if l.hashes != nil {
		l.hashes(hashes)
	}
	return hashes, err
}

func (l *tampered) Checkpoint(ctx context.Context) (auditlog.Checkpoint, error) {
	checkpoint, err := l.Log.Checkpoint(ctx)
	if l.checkpoint != nil {
		l.checkpoint(&checkpoint)
	}
	return checkpoint, err
}

func (l *tampered) Strays(ctx context.Context, limit int) ([]repo.ID, error) {
	if l.strays != nil {
		return l.strays, nil
	}
	return l.Log.Strays(ctx, limit)
}

func (l *tampered) Lost(ctx context.Context, limit int) ([]repo.ID, error) {
	if l.lost != nil {
		return l.lost, nil
	}
	return l.Log.Lost(ctx, limit)
}

func sealedStore(t testing.TB, count int, signer note.Signer) (*memory.Store, []repo.AuditEntry) {
	t.Helper()
	store := memory.New()
	t.Cleanup(func() { _ = store.Close() })
	var entries []repo.AuditEntry
	for i := range count {
		entries = append(entries, repo.AuditEntry{
			ID: repo.NewID(), OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, i*1000, time.UTC), Type: EventToolInvoked,
			Namespace: "n", Actor: "a", User: "u", Project: "p", PlanID: repo.NewID(), SessionID: repo.NewID(), Details: json.RawMessage(fmt.Sprintf(`{"i": %d}`, i)),
		})
	}
	for part := range slices.Chunk(entries, 1000) {
		if err := store.Audit().Record(t.Context(), part...); err != nil {
			t.Fatal(err)
		}
	}
	seal(t, store, signer, 700)
	return store, entries
}

func seal(t testing.TB, store auditlog.Keeper, signer note.Signer, batch int) {
	t.Helper()
	sealer, err := NewSealer(store.AuditLog(), SealerOptions{Signer: signer, Batch: batch})
	if err != nil {
		t.Fatal(err)
	}
	for {
		sealed, err := sealer.SealOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if sealed == 0 {
			return
		}
	}
}

func keys(t testing.TB) (note.Signer, note.Verifier) {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, "test")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	return signer, verifier
}

func verify(t *testing.T, log auditlog.Log, options VerifyOptions) Report {
	t.Helper()
	report, err := Verify(t.Context(), log, options)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestVerifyIntact(t *testing.T) {
	signer, verifier := keys(t)
	for _, count := range []int{0, 1, 2, 3, 7, 8, 999, 1000, 1001, 2500} {
		store, _ := sealedStore(t, count, signer)
		if report := verify(t, store.AuditLog(), VerifyOptions{Verifier: verifier}); report.Sealed != int64(count) || len(report.Breaks) != 0 {
			t.Errorf("%d entries: %+v", count, report)
		}
	}
}

// Every change to the trail, the log or its checkpoint is found and named.
// Guarantee: The audit trail: Every change of a sealed entry, leaf, hash or checkpoint is found.
func TestVerifyFindsTampering(t *testing.T) {
	signer, verifier := keys(t)
	other, _ := keys(t)
	store, _ := sealedStore(t, 1500, signer)
	at := func(sequence int64, change func(*auditlog.Leaf) bool) func(*auditlog.Leaf) bool {
		return func(leaf *auditlog.Leaf) bool { return leaf.Sequence != sequence || change(leaf) }
	}
	entry := func(change func(*auditlog.Entry)) func(*auditlog.Leaf) bool {
		return at(1203, func(leaf *auditlog.Leaf) bool { change(leaf.Entry); return true })
	}
	forged, err := newCheckpoint(statement{origin: Origin("test", repo.NewID()), size: 1500, root: [32]byte{1}}, other)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		log  tampered
		want BreakKind
	}{
		"details":     {tampered{leaf: entry(func(e *auditlog.Entry) { e.Details = json.RawMessage(`{"i":1203}`) })}, BreakContent},
		"type":        {tampered{leaf: entry(func(e *auditlog.Entry) { e.Type = EventAuthFailure })}, BreakContent},
		"actor":       {tampered{leaf: entry(func(e *auditlog.Entry) { e.Actor = "b" })}, BreakContent},
		"actor, user": {tampered{leaf: entry(func(e *auditlog.Entry) { e.Actor, e.User = "au", "" })}, BreakContent},
		"project":     {tampered{leaf: entry(func(e *auditlog.Entry) { e.Project = "" })}, BreakContent},
		"occurred":    {tampered{leaf: entry(func(e *auditlog.Entry) { e.OccurredAt = e.OccurredAt.Add(time.Microsecond) })}, BreakContent},
		"recorded":    {tampered{leaf: entry(func(e *auditlog.Entry) { e.RecordedAt = e.RecordedAt.Add(-time.Microsecond) })}, BreakContent},
		"plan":        {tampered{leaf: entry(func(e *auditlog.Entry) { e.PlanID[15]++ })}, BreakContent},
		"session":     {tampered{leaf: entry(func(e *auditlog.Entry) { e.SessionID = repo.ID{} })}, BreakContent},
		"namespace":   {tampered{leaf: entry(func(e *auditlog.Entry) { e.Namespace = "" })}, BreakContent},
		"salt":        {tampered{leaf: entry(func(e *auditlog.Entry) { e.Salts[0][0]++ })}, BreakContent},
		"no salts":    {tampered{leaf: entry(func(e *auditlog.Entry) { e.Salts = nil })}, BreakContent},
		"salt, actor": {tampered{leaf: entry(func(e *auditlog.Entry) { e.Salts[0], e.Actor = append(e.Salts[0], "a"...), "" })}, BreakContent},
		"erased, but for the value": {tampered{leaf: entry(func(e *auditlog.Entry) {
			erase(e, 0)
			e.Actor = "b"
		})}, BreakContent},
		"erased, another digest": {tampered{leaf: entry(func(e *auditlog.Entry) {
			erase(e, 3)
			e.Salts[3][0]++
		})}, BreakContent},
		"id":      {tampered{leaf: entry(func(e *auditlog.Entry) { e.ID[3]++ })}, BreakContent},
		"removed": {tampered{leaf: at(1203, func(leaf *auditlog.Leaf) bool { leaf.Entry = nil; return true })}, BreakMissing},
		"leaf": {tampered{leaf: at(1203, func(leaf *auditlog.Leaf) bool {
			leaf.Entry.Actor = "b"
			leaf.Hash = LeafHash(*leaf.Entry)
			return true
		})}, BreakHash},
		"leaf removed": {tampered{leaf: at(1203, func(*auditlog.Leaf) bool { return false })}, BreakLeaf},
		"last removed": {tampered{leaf: at(1499, func(*auditlog.Leaf) bool { return false })}, BreakCheckpoint},
		"hash":         {tampered{hashes: func(h [][32]byte) { h[len(h)/2][7] ^= 1 }}, BreakHash},
		"checkpoint":   {tampered{checkpoint: func(c *auditlog.Checkpoint) { c.Root[0] ^= 1 }}, BreakCheckpoint},
		"forged":       {tampered{checkpoint: func(c *auditlog.Checkpoint) { *c = forged }}, BreakCheckpoint},
		"stray":        {tampered{strays: []repo.ID{repo.NewID()}}, BreakStray},
		"lost":         {tampered{lost: []repo.ID{repo.NewID()}}, BreakMissing},
	} {
		log := test.log
		log.Log = store.AuditLog()
		report := verify(t, &log, VerifyOptions{Verifier: verifier})
		found := slices.ContainsFunc(report.Breaks, func(b Break) bool { return b.Kind == test.want })
		if !found {
			t.Errorf("%s: %+v", name, report.Breaks)
		}
		if (test.want == BreakContent || name == "removed") && (len(report.Breaks) != 1 || report.Breaks[0].Sequence != 1203 || report.Breaks[0].EntryID.IsZero()) {
			t.Errorf("%s: %+v", name, report.Breaks)
		}
	}
}

// A checkpoint that was kept reveals a log that was rewritten as a whole.
func TestVerifyAgainstHeldCheckpoint(t *testing.T) {
	signer, verifier := keys(t)
	store, entries := sealedStore(t, 100, signer)
	held, err := store.AuditLog().Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Audit().Record(t.Context(), repo.AuditEntry{Type: EventAuthFailure}); err != nil {
		t.Fatal(err)
	}
	seal(t, store, signer, 10)
	if report := verify(t, store.AuditLog(), VerifyOptions{Verifier: verifier, Held: held.Note}); len(report.Breaks) != 0 {
		t.Errorf("a log that has grown: %+v", report)
	}
	anew := memory.New()
	defer func() { _ = anew.Close() }()
	entries[50].Actor = "someone else"
	if err := anew.Audit().Record(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	seal(t, anew, signer, 1000)
	if report := verify(t, anew.AuditLog(), VerifyOptions{Verifier: verifier}); len(report.Breaks) != 0 {
		t.Errorf("a rewritten log, without the checkpoint: %+v", report)
	}
	if report := verify(t, anew.AuditLog(), VerifyOptions{Verifier: verifier, Held: held.Note}); len(report.Breaks) != 2 || report.Breaks[0].Kind != BreakHeld || report.Breaks[1].Kind != BreakHeld { // another origin, another tree
		t.Errorf("a rewritten log: %+v", report)
	}
	short, _ := sealedStore(t, 10, signer)
	if report := verify(t, short.AuditLog(), VerifyOptions{Held: held.Note}); len(report.Breaks) != 2 || report.Breaks[0].Kind != BreakHeld || report.Breaks[1].Kind != BreakHeld { // another origin, another tree
		t.Errorf("a shorter log: %+v", report)
	}
}

// After a prune with a hold, the trail and the proofs of its entries verify.
// Guarantee: The audit trail: After a prune the rest can be verified.
func TestVerifyAfterPrune(t *testing.T) {
	store, entries := sealedStore(t, 300, nil)
	if err := store.AuditLog().Hold(t.Context(), auditlog.Hold{PlanID: entries[7].PlanID, Reason: "a court"}); err != nil {
		t.Fatal(err)
	}
	pruned, err := store.AuditLog().Prune(t.Context(), auditlog.Prune{Before: entries[200].OccurredAt, Reason: "age"})
	if err != nil || pruned.Entries != 199 || pruned.Held != 1 {
		t.Fatalf("pruned %+v, %v", pruned, err)
	}
	seal(t, store, nil, 100)
	report := verify(t, store.AuditLog(), VerifyOptions{})
	if report.Sealed != 301 || report.Pruned != 199 || len(report.Breaks) != 0 {
		t.Errorf("%+v", report)
	}
	if _, err := Prove(t.Context(), store.AuditLog(), entries[250].ID); err != nil {
		t.Error(err)
	}
	if _, err := Prove(t.Context(), store.AuditLog(), entries[3].ID); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("the proof of a pruned entry gave %v", err)
	}
}

func TestProof(t *testing.T) {
	signer, verifier := keys(t)
	_, stranger := keys(t)
	store, entries := sealedStore(t, 137, signer)
	for i, entry := range entries {
		proof, err := Prove(t.Context(), store.AuditLog(), entry.ID)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(proof)
		if err != nil {
			t.Fatal(err)
		}
		var read Proof
		if err := json.Unmarshal(raw, &read); err != nil {
			t.Fatal(err)
		}
		if err := CheckProof(read, verifier); err != nil {
			t.Errorf("entry %d: %v", i, err)
		}
		if err := CheckProof(read, stranger); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("another key gave %v", err)
		}
		read.Entry.Text = `{"i":-1}`
		if err := CheckProof(read, verifier); !errors.Is(err, ErrProof) {
			t.Errorf("another entry gave %v", err)
		}
		read = proof
		read.Sequence = (read.Sequence + 1) % 137
		if err := CheckProof(read, verifier); !errors.Is(err, ErrProof) {
			t.Errorf("another place gave %v", err)
		}
	}
	if _, err := Prove(t.Context(), store.AuditLog(), repo.NewID()); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("an unknown entry gave %v", err)
	}
}

func TestParseCheckpoint(t *testing.T) {
	for _, malformed := range []string{
		"", "a\n", "a\n1\n", "a\n0\n" + strings.Repeat("A", 43) + "=\n", "a\n01\n" + strings.Repeat("A", 43) + "=\n",
		"\n1\n" + strings.Repeat("A", 43) + "=\n", "a\n1\nAAAA\n", "a\n1\n" + strings.Repeat("A", 60) + "\n", "a\n-1\nx\n",
	} {
		if _, err := ParseCheckpoint([]byte(malformed), nil); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("%q gave %v", malformed, err)
		}
	}
}

// Two sealers may run at once: neither fails.
func TestSealersTogether(t *testing.T) {
	store := memory.New()
	defer func() { _ = store.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	published := make(chan auditlog.Checkpoint, 10_000)
	for range 2 {
		sealer, err := NewSealer(store.AuditLog(), SealerOptions{Interval: time.Millisecond, Batch: 10, Publish: func(_ context.Context, c auditlog.Checkpoint) error {
			published <- c
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			sealer.Run(ctx)
			ended <- struct{}{}
		}()
	}
	for range 500 {
		if err := store.Audit().Record(t.Context(), repo.AuditEntry{Type: EventAuthFailure}); err != nil {
			t.Fatal(err)
		}
	}
	for waiting := int64(1); waiting > 0; {
		w, err := store.AuditLog().Waiting(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		waiting = w.Entries
	}
	cancel()
	<-ended
	<-ended
	if report := verify(t, store.AuditLog(), VerifyOptions{}); report.Sealed != 500 || len(report.Breaks) != 0 {
		t.Errorf("%+v", report)
	}
	if len(published) == 0 {
		t.Error("no checkpoint was published")
	}
}

// While another sealer works, SealOnce returns 0 and no error.
func TestSealOnceBesideAnother(t *testing.T) {
	store := memory.New()
	defer func() { _ = store.Close() }()
	if err := store.Audit().Record(t.Context(), repo.AuditEntry{Type: EventAuthFailure}); err != nil {
		t.Fatal(err)
	}
	sealer, err := NewSealer(store.AuditLog(), SealerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	undone := errors.New("undone")
	_, err = store.AuditLog().Seal(t.Context(), 10, func(auditlog.Unsealed, auditlog.HashReader) (auditlog.Seal, error) {
		if sealed, err := sealer.SealOnce(t.Context()); sealed != 0 || err != nil {
			t.Errorf("beside another: %d, %v", sealed, err)
		}
		return auditlog.Seal{}, undone
	})
	if !errors.Is(err, undone) {
		t.Error(err)
	}
	if sealed, err := sealer.SealOnce(t.Context()); sealed != 1 || err != nil {
		t.Errorf("alone: %d, %v", sealed, err)
	}
}

func BenchmarkSeal(b *testing.B) {
	signer, _ := keys(b)
	sealer, err := NewSealer(nil, SealerOptions{Signer: signer})
	if err != nil {
		b.Fatal(err)
	}
	entries := make([]auditlog.Entry, 5000)
	for i := range entries {
		entries[i] = auditlog.Entry{AuditEntry: repo.AuditEntry{ID: repo.NewID(), Type: EventToolInvoked, Details: json.RawMessage(strings.Repeat("x", 500))}}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := sealer.seal(auditlog.Unsealed{Entries: entries}, noHashes); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(entries))/b.Elapsed().Seconds(), "entries/s")
}

// failing is a log whose Seal has its n-th error, and nothing to seal otherwise.
type failing struct {
	auditlog.Log
	errors []error
	at     []time.Time
}

func (l *failing) Seal(context.Context, int, func(auditlog.Unsealed, auditlog.HashReader) (auditlog.Seal, error)) (int, error) {
	l.at = append(l.at, time.Now())
	if n := len(l.at); n <= len(l.errors) {
		return 0, l.errors[n-1]
	}
	return 0, nil
}

// While sealing fails, the pauses double up to 30 seconds, and begin anew after a success.
func TestSealerBackoff(t *testing.T) {
	for interval, most := range map[time.Duration]time.Duration{time.Second: 30 * time.Second, time.Hour: time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			denied := fmt.Errorf("%w: x", repo.ErrPermission)
			log := &failing{errors: append(slices.Repeat([]error{denied}, 40), nil, denied, denied)}
			sealer, err := NewSealer(log, SealerOptions{Interval: interval})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*most)
			defer cancel()
			sealer.Run(ctx)
			for i := 1; i < len(log.at) && i < len(log.errors)+3; i++ {
				least, longest := interval, interval
				if failures := i; failures <= 40 {
					longest = min(most, interval<<min(failures-1, 5))
					least = longest / 2
				} else if failures == 42 || failures == 43 {
					longest = min(most, interval<<(failures-42))
					least = longest / 2
				}
				if pause := log.at[i].Sub(log.at[i-1]); pause < least || pause > longest {
					t.Errorf("interval %v: pause %d was %v, want %v to %v", interval, i, pause, least, longest)
				}
			}
			if len(log.at) < len(log.errors)+3 {
				t.Errorf("interval %v: %d attempts", interval, len(log.at))
			}
		})
	}
}
