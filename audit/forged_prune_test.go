package audit

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

// A prune covers exactly what its entry states, once that entry is sealed.
func TestVerifyForgedPrunes(t *testing.T) {
	signer, verifier := keys(t)
	store, entries := sealedStore(t, 30, signer)
	if _, err := store.AuditLog().Prune(t.Context(), auditlog.Prune{Before: entries[5].OccurredAt}); err != nil {
		t.Fatal(err)
	}
	before, err := store.AuditLog().Checkpoint(t.Context()) // does not cover the prune's own entry
	if err != nil {
		t.Fatal(err)
	}
	// told has the details of a prune, but another type. late is old enough to be
	// pruned, but was recorded after the prune.
	told := repo.AuditEntry{ID: repo.NewID(), Type: EventToolInvoked, Details: json.RawMessage(`{"before":"2099-01-01T00:00:00Z"}`)}
	late := repo.AuditEntry{ID: repo.NewID(), OccurredAt: entries[0].OccurredAt, Type: EventToolInvoked}
	seal(t, store, signer, 100)
	if err := store.Audit().Record(t.Context(), told, late); err != nil {
		t.Fatal(err)
	}
	seal(t, store, signer, 100)
	intact := verify(t, store.AuditLog(), VerifyOptions{Verifier: verifier})
	if len(intact.Breaks) != 0 || intact.Pruned != 5 || len(intact.Prunes) != 1 {
		t.Fatalf("%+v", intact)
	}
	prune := intact.Prunes[0].EntryID

	gone := func(id, by repo.ID) func(*auditlog.Leaf) bool {
		return func(leaf *auditlog.Leaf) bool {
			if leaf.EntryID == id {
				leaf.Entry, leaf.PrunedBy = nil, by
			}
			return true
		}
	}
	change := func(id repo.ID, change func(*auditlog.Leaf)) func(*auditlog.Leaf) bool {
		return func(leaf *auditlog.Leaf) bool {
			if leaf.EntryID == id {
				change(leaf)
			}
			return true
		}
	}
	old := func(c *auditlog.Checkpoint) { *c = before }
	oldFirst := func() func(*auditlog.Checkpoint) {
		calls := 0
		return func(c *auditlog.Checkpoint) {
			if calls++; calls == 1 {
				*c = before
			}
		}
	}
	wider := func(leaf *auditlog.Leaf) {
		leaf.Entry.Details = json.RawMessage(`{"before":"2099-01-01T00:00:00Z","held":{}}`)
	}
	for name, test := range map[string]struct {
		log    tampered
		one    func(*auditlog.Leaf) // changes the result of Leaf
		kind   BreakKind            // empty: no break
		detail string
	}{
		"too young for it":          {log: tampered{leaf: gone(entries[12].ID, prune)}, kind: BreakPrune, detail: "not within the bounds"},
		"sealed after it":           {log: tampered{leaf: gone(late.ID, prune)}, kind: BreakPrune, detail: "sealed after the prune"},
		"by an entry of another":    {log: tampered{leaf: gone(entries[12].ID, told.ID)}, kind: BreakPrune, detail: "not a sealed prune"},
		"by nothing":                {log: tampered{leaf: gone(entries[12].ID, repo.NewID())}, kind: BreakPrune, detail: "not a sealed prune"},
		"its session changed":       {log: tampered{leaf: change(entries[2].ID, func(l *auditlog.Leaf) { l.Kept.SessionID = repo.ID{} })}, kind: BreakKept},
		"its type changed":          {log: tampered{leaf: change(entries[2].ID, func(l *auditlog.Leaf) { l.Kept.Type = EventAuthFailure })}, kind: BreakKept},
		"its namespace changed":     {log: tampered{leaf: change(entries[2].ID, func(l *auditlog.Leaf) { l.Kept.Namespace = "other" })}, kind: BreakKept},
		"its recording changed":     {log: tampered{leaf: change(entries[2].ID, func(l *auditlog.Leaf) { l.Kept.RecordedAt = l.OccurredAt })}, kind: BreakKept},
		"its time changed":          {log: tampered{leaf: change(entries[2].ID, func(l *auditlog.Leaf) { l.OccurredAt = l.OccurredAt.Add(-time.Microsecond) })}, kind: BreakKept},
		"its prune sealed beside":   {log: tampered{checkpoint: oldFirst()}},
		"its prune never sealed":    {log: tampered{checkpoint: old}, kind: BreakPrune, detail: "in no checkpoint"},
		"its prune changed beside":  {log: tampered{checkpoint: oldFirst()}, one: wider, kind: BreakPrune, detail: "in no checkpoint"},
		"a leaf that is in no tree": {log: tampered{checkpoint: old}, kind: BreakCheckpoint, detail: "the leaf is in no checkpoint"},
	} {
		log := test.log
		log.Log = store.AuditLog()
		report := verify(t, &oneLeaf{&log, test.one}, VerifyOptions{Verifier: verifier, MaxPruneWait: -1})
		if test.kind == "" {
			if len(report.Breaks) != 0 {
				t.Errorf("%s: %+v", name, report.Breaks)
			}
			continue
		}
		if !slices.ContainsFunc(report.Breaks, func(b Break) bool { return b.Kind == test.kind && strings.Contains(b.Detail, test.detail) }) {
			t.Errorf("%s: %+v", name, report.Breaks)
		}
	}
}

// oneLeaf falsifies the leaf that Leaf returns.
type oneLeaf struct {
	*tampered
	change func(*auditlog.Leaf)
}

func (l *oneLeaf) Leaf(ctx context.Context, id repo.ID) (auditlog.Leaf, error) {
	leaf, err := l.tampered.Leaf(ctx, id)
	if err == nil && l.change != nil {
		l.change(&leaf)
	}
	return leaf, err
}

// Entries that are kept from the sealer are reported as waiting.
func TestVerifyWaiting(t *testing.T) {
	store, _ := sealedStore(t, 3, nil)
	if err := store.Audit().Record(t.Context(), repo.AuditEntry{Type: EventAuthFailure}); err != nil {
		t.Fatal(err)
	}
	if report := verify(t, store.AuditLog(), VerifyOptions{MaxWaiting: time.Hour}); report.Waiting != 1 || len(report.Breaks) != 0 {
		t.Errorf("within an hour: %+v", report)
	}
	await.For(t, "the entry has waited for more than a nanosecond", func() bool {
		breaks := verify(t, store.AuditLog(), VerifyOptions{MaxWaiting: time.Nanosecond}).Breaks
		return len(breaks) == 1 && breaks[0].Kind == BreakWaiting
	})
}

// A report has at most MaxBreaks breaks, and says if there were more.
func TestVerifyBoundsItsReport(t *testing.T) {
	store, _ := sealedStore(t, 3, nil)
	log := &tampered{Log: store.AuditLog(), strays: make([]repo.ID, 20)}
	if report := verify(t, log, VerifyOptions{MaxBreaks: 5}); len(report.Breaks) != 5 || !report.More {
		t.Errorf("%d breaks, more: %t", len(report.Breaks), report.More)
	}
	if report := verify(t, log, VerifyOptions{MaxBreaks: 20}); len(report.Breaks) != 20 || report.More {
		t.Errorf("%d breaks, more: %t", len(report.Breaks), report.More)
	}
}

// A report without breaks is intact. What would hide breaks is refused, and a checkpoint
// that cannot be read is an error, not a break.
func TestVerifyArguments(t *testing.T) {
	signer, verifier := keys(t)
	store, _ := sealedStore(t, 3, nil)
	if report := verify(t, store.AuditLog(), VerifyOptions{}); !report.Intact() {
		t.Errorf("intact: %+v", report)
	}
	broken := &tampered{Log: store.AuditLog(), strays: make([]repo.ID, 1)}
	if report := verify(t, broken, VerifyOptions{}); report.Intact() {
		t.Errorf("broken: %+v", report)
	}
	if (Report{More: true}).Intact() {
		t.Error("a report of more breaks is intact")
	}
	for field, options := range map[string]VerifyOptions{"options.MaxBreaks": {MaxBreaks: -1}, "options.MaxWaiting": {MaxWaiting: -1}} {
		_, err := Verify(t.Context(), broken, options)
		if refused, ok := errors.AsType[*repo.InvalidError](err); !ok || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	signed, _ := sealedStore(t, 3, signer)
	checkpoint, err := store.AuditLog().Checkpoint(t.Context()) // which is not signed
	if err != nil {
		t.Fatal(err)
	}
	for name, held := range map[string][]byte{"malformed": []byte("garbage"), "not signed": checkpoint.Note} {
		if _, err := Verify(t.Context(), signed.AuditLog(), VerifyOptions{Verifier: verifier, Held: held}); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
