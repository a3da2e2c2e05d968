package audit

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"

	"github.com/seed-df90f812/agentstore"
	trail "github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// forged is a sealed trail, and a connection for a forger that may run any SQL.
type forged struct {
	*testing.T
	url      string
	store    *agentstore.Store
	conn     *pgx.Conn // the forger's
	signer   note.Signer
	verifier note.Verifier
	// held is a checkpoint of everything that is sealed. The forger cannot change it.
	held []byte

	old, heldPlan, young, unsealed []repo.AuditEntry
	gap                            repo.AuditEntry
	// prune removed the old tool_invoked entries, except those on hold. late is old
	// enough, too, but was sealed after that prune.
	prune repo.ID
	late  repo.AuditEntry
	plan  repo.ID
}

func newKeys(t *testing.T, name string) (note.Signer, note.Verifier) {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, name)
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

func newForged(t *testing.T) *forged {
	t.Helper()
	f := &forged{T: t, url: pgtest.NewDatabase(t), plan: repo.NewID()}
	f.store, f.conn = pgtest.OpenStore(t, f.url, agentstore.Options{}), pgtest.Connect(t, f.url)
	f.signer, f.verifier = newKeys(t, "forged")
	year := time.Now().AddDate(-1, 0, 0)
	make := func(count int, at time.Time, kind string, plan repo.ID) []repo.AuditEntry {
		var entries []repo.AuditEntry
		for i := range count {
			e := entryAt(at.Add(time.Duration(i) * time.Second))
			e.Type, e.PlanID, e.SessionID = kind, plan, repo.NewID()
			entries = append(entries, e)
		}
		return entries
	}
	f.old = make(10, year, events.ToolInvoked, repo.NewID())
	f.heldPlan = make(2, year, events.ToolInvoked, f.plan)
	others := make(3, year, events.AuthFailure, repo.NewID())
	f.gap = make(1, year, events.AuditGap, repo.ID{})[0]
	f.young = make(8, time.Now().Add(-time.Hour), events.ToolInvoked, repo.NewID())
	f.record(slices.Concat(f.old, f.heldPlan, others, []repo.AuditEntry{f.gap}, f.young)...)
	f.seal()
	if err := f.store.AuditLog().Hold(t.Context(), auditlog.Hold{PlanID: f.plan, Reason: "a court"}); err != nil {
		t.Fatal(err)
	}
	before := time.Now().AddDate(0, -6, 0)
	got, err := f.store.AuditLog().Prune(t.Context(), auditlog.Prune{Before: before, Types: []string{events.ToolInvoked}, Actor: "keeper"})
	if err != nil || got.Entries != 10 || got.Held != 2 {
		t.Fatalf("pruned %+v, %v", got, err)
	}
	f.prune = pgtest.Value[[16]byte](t, f.conn, "SELECT id FROM audit_entries WHERE type = 'audit_pruned'")
	f.seal()
	f.late = make(1, year, events.ToolInvoked, repo.NewID())[0]
	f.record(f.late)
	f.seal()
	checkpoint, err := f.store.AuditLog().Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.held = checkpoint.Note
	f.unsealed = make(3, time.Now(), events.ToolInvoked, repo.NewID())
	f.record(f.unsealed...)
	if report := f.verify(nil); len(report.Breaks) != 0 || report.Pruned != 10 {
		t.Fatalf("before any forgery: %+v", report)
	}
	return f
}

func (f *forged) record(entries ...repo.AuditEntry) {
	f.Helper()
	if err := f.store.Audit().Record(f.Context(), entries...); err != nil {
		f.Fatal(err)
	}
}

// seal runs the sealer, which has the key and trusts the database.
func (f *forged) seal() {
	f.Helper()
	sealer, err := trail.NewSealer(f.store.AuditLog(), trail.SealerOptions{Signer: f.signer})
	if err != nil {
		f.Fatal(err)
	}
	for {
		sealed, err := sealer.SealOnce(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		if sealed == 0 {
			return
		}
	}
}

func (f *forged) verify(held []byte) trail.Report {
	f.Helper()
	report, err := trail.Verify(f.Context(), f.store.AuditLog(), trail.VerifyOptions{Verifier: f.verifier, Held: held})
	if err != nil {
		f.Fatal(err)
	}
	return report
}

// sql runs the forger's statements, with triggers disabled and the variables set that
// the trail's functions would set. Each $n stands for an id.
func (f *forged) sql(sql string, ids ...repo.ID) {
	f.Helper()
	for i, id := range ids {
		sql = strings.ReplaceAll(sql, "$"+string(rune('1'+i)), "'"+id.String()+"'")
	}
	pgtest.Exec(f.T, f.conn, "SET agentstore.audit_prune = 'on'; "+sql+"; RESET agentstore.audit_prune")
}

// verifyWaitless does not wait until the entry of a prune is sealed.
func (f *forged) verifyWaitless(held []byte) trail.Report {
	f.Helper()
	report, err := trail.Verify(f.Context(), f.store.AuditLog(), trail.VerifyOptions{Verifier: f.verifier, Held: held, MaxPruneWait: -1})
	if err != nil {
		f.Fatal(err)
	}
	return report
}
