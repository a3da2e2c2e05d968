package audit

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	trail "github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
)

func kinds(report trail.Report) []string {
	var found []string
	for _, b := range report.Breaks {
		if !slices.Contains(found, string(b.Kind)) {
			found = append(found, string(b.Kind))
		}
	}
	slices.Sort(found)
	return found
}

// forgeries are what somebody can do who may run any SQL: one row of the table in
// docs/audit.md each, in its order. alone is what a verification with the public key
// finds, held with a checkpoint that was kept elsewhere before; nothing means that it
// is not found.
var forgeries = []struct {
	name, alone, held string
	do                func(f *forged)
}{
	// Entries.
	{"change the details of a sealed entry", "content changed", "content changed", func(f *forged) {
		f.sql(off+"UPDATE audit_entries SET details = '{\"forged\":1}' WHERE id = $1"+on, f.young[0].ID)
	}},
	{"change who did it", "content changed", "content changed", func(f *forged) {
		f.sql(off+"UPDATE audit_entries SET actor = 'another' WHERE id = $1"+on, f.young[0].ID)
	}},
	{"change when it was recorded", "content changed", "content changed", func(f *forged) {
		f.sql(off+"UPDATE audit_entries SET recorded_at = recorded_at - interval '1 hour' WHERE id = $1"+on, f.young[0].ID)
	}},
	{"change the nonce", "content changed", "content changed", func(f *forged) {
		f.sql(off+"UPDATE audit_entries SET nonce = gen_random_uuid() WHERE id = $1"+on, f.young[0].ID)
	}},
	{"move it to another time", "entry missing, unknown entry", "entry missing, unknown entry", func(f *forged) {
		f.sql(off+"UPDATE audit_entries SET occurred_at = occurred_at - interval '1 minute' WHERE id = $1"+on, f.young[0].ID)
	}},
	{"delete a sealed entry", "entry missing", "entry missing", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1", f.young[0].ID)
	}},
	{"put an entry into a month's table itself", "unknown entry", "unknown entry", func(f *forged) {
		f.sql("INSERT INTO audit_entries_" + time.Now().UTC().Format("200601") + " (occurred_at, id, type) VALUES (now(), gen_random_uuid(), 'tool_invoked')")
	}},
	{"put an entry in while the queue's trigger is off", "unknown entry", "unknown entry", func(f *forged) {
		f.sql("ALTER TABLE audit_entries DISABLE TRIGGER audit_entries_queue; INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), gen_random_uuid(), 'tool_invoked'); ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_queue")
	}},
	{"put a pruned entry back, changed", "content changed", "content changed", func(f *forged) {
		f.sql("INSERT INTO audit_entries (occurred_at, id, type) SELECT occurred_at, entry_id, 'auth_success' FROM audit_leaves WHERE entry_id = $1; DELETE FROM audit_unsealed WHERE entry_id = $1", f.old[0].ID)
	}},
	{"record a false entry, as anybody who may record", "", "", func(f *forged) {
		f.sql("INSERT INTO audit_entries (occurred_at, id, type, actor) VALUES (now(), gen_random_uuid(), 'user_approval', 'somebody')")
		f.seal()
	}},
	{"record an entry with the id of a prune and an earlier time, as anybody who may record", "", "", func(f *forged) {
		shadow := entryAt(time.Now().AddDate(0, 0, -1))
		shadow.ID = f.prune
		f.record(shadow)
		f.seal()
	}},
	{"record a false entry, and the time of its recording", "", "", func(f *forged) {
		f.sql("INSERT INTO audit_entries (occurred_at, id, recorded_at, type) VALUES (now() - interval '1 day', gen_random_uuid(), now() - interval '1 day', 'user_approval')")
		f.seal()
	}},
	{"change the type of a column", "content changed", "content changed", func(f *forged) {
		f.sql("ALTER TABLE audit_entries ALTER COLUMN actor TYPE varchar(3) USING left(actor, 3)")
	}},
	{"detach a month", "entry missing, not covered by a prune|entry missing", "entry missing, not covered by a prune|entry missing", func(f *forged) {
		f.sql("ALTER TABLE audit_entries DETACH PARTITION audit_entries_" + f.young[0].OccurredAt.UTC().Format("200601"))
	}},
	{"drop a month", "entry missing", "entry missing", func(f *forged) {
		f.sql("DROP TABLE audit_entries_" + f.heldPlan[0].OccurredAt.UTC().Format("200601"))
	}},
	// What waits to be sealed.
	{"change an entry before it is sealed", "", "", func(f *forged) {
		f.sql(off+"UPDATE audit_entries SET actor = 'another' WHERE id = $1"+on, f.unsealed[0].ID)
		f.seal()
	}},
	{"delete an entry before it is sealed, and its place in the queue", "", "", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1; DELETE FROM audit_unsealed WHERE entry_id = $1", f.unsealed[0].ID)
	}},
	{"delete an entry before it is sealed", "entry missing", "entry missing", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1", f.unsealed[0].ID)
	}},
	{"take an entry's place in the queue", "unknown entry", "unknown entry", func(f *forged) {
		f.sql("DELETE FROM audit_unsealed WHERE entry_id = $1", f.unsealed[0].ID)
	}},
	{"put something into the queue that is not there", "entry missing", "entry missing", func(f *forged) {
		f.sql("INSERT INTO audit_unsealed (occurred_at, entry_id, recorded_at) VALUES (now(), gen_random_uuid(), now())")
	}},
	{"put a sealed entry into the queue again", "", "", func(f *forged) {
		f.sql("INSERT INTO audit_unsealed (occurred_at, entry_id, recorded_at) SELECT occurred_at, id, now() FROM audit_entries WHERE id = $1", f.young[0].ID)
		f.seal()
	}},
	{"have entries wait, and the queue say since now", "", "", func(f *forged) {
		f.sql("UPDATE audit_unsealed SET recorded_at = now() + interval '1 hour'")
	}},
	{"have entries wait for hours", "unsealed too long", "unsealed too long", func(f *forged) {
		f.sql("UPDATE audit_unsealed SET recorded_at = now() - interval '2 hours'")
	}},
	// Prunes.
	{"delete as a prune does, naming no entry", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = gen_random_uuid() WHERE entry_id = $1", f.young[0].ID)
	}},
	{"… naming an entry that is no prune", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = $2 WHERE entry_id = $1", f.young[0].ID, f.young[1].ID)
	}},
	{"… naming a prune of older entries", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = $2 WHERE entry_id = $1", f.young[0].ID, f.prune)
	}},
	{"… naming a prune of other types", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE type = 'auth_failure'; UPDATE audit_leaves SET pruned_by = $1 WHERE type = 'auth_failure'", f.prune)
	}},
	{"… what was on hold then", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = $2 WHERE entry_id = $1", f.heldPlan[0].ID, f.prune)
	}},
	{"… what was sealed after the prune", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = $2 WHERE entry_id = $1", f.late.ID, f.prune)
	}},
	{"… and change what its leaf keeps, so that it is covered", "leaf changed", "leaf changed", func(f *forged) {
		f.sql("ALTER TABLE audit_leaves DISABLE TRIGGER USER; DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = $2, occurred_at = now() - interval '1 year' WHERE entry_id = $1; ALTER TABLE audit_leaves ENABLE ALWAYS TRIGGER audit_leaves_refuse", f.young[0].ID, f.prune)
	}},
	{"… and pass its leaf off as one of version 1", "checkpoint wrong", "checkpoint wrong, differs from the checkpoint held", func(f *forged) {
		f.sql("ALTER TABLE audit_leaves DISABLE TRIGGER USER; DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = $2, occurred_at = now() - interval '1 year', version = 1, type = NULL, plan_id = NULL, session_id = NULL, hidden = NULL WHERE entry_id = $1; ALTER TABLE audit_leaves ENABLE ALWAYS TRIGGER audit_leaves_refuse", f.young[0].ID, f.prune)
	}},
	{"… the same, and wait for the sealer, the latest checkpoint cut off", "", "differs from the checkpoint held", func(f *forged) {
		f.sql("ALTER TABLE audit_leaves DISABLE TRIGGER USER; ALTER TABLE audit_checkpoints DISABLE TRIGGER USER; DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = $2, occurred_at = now() - interval '1 year', version = 1, type = NULL, plan_id = NULL, session_id = NULL, hidden = NULL WHERE entry_id = $1; DELETE FROM audit_checkpoints", f.young[0].ID, f.prune)
		f.seal()
	}},
	{"widen the bounds in a prune's entry", "content changed", "content changed", func(f *forged) {
		f.sql(off+"UPDATE audit_entries SET details = '{\"before\":\"2100-01-01T00:00:00Z\"}' WHERE id = $1; DELETE FROM audit_entries WHERE id = $2; "+on+"; UPDATE audit_leaves SET pruned_by = $1 WHERE entry_id = $2", f.prune, f.young[0].ID)
	}},
	{"delete the entry of a prune", "entry missing, not covered by a prune", "entry missing, not covered by a prune", func(f *forged) {
		f.sql(off+"DELETE FROM audit_entries WHERE id = $1"+on, f.prune)
	}},
	{"delete the entry of a gap, naming a prune", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.sql(off+"DELETE FROM audit_entries WHERE id = $1; "+on+"; UPDATE audit_leaves SET pruned_by = $2 WHERE entry_id = $1", f.gap.ID, f.prune)
	}},
	{"make an entry of a prune, which is not sealed", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.forgePrune(repo.NewID())
	}},
	{"make an entry of a prune, and wait for the sealer", "", "", func(f *forged) { // on record: see below
		f.forgePrune(repo.NewID())
		f.seal()
	}},
	// Leaves.
	{"delete a leaf", "checkpoint wrong, leaf missing, tree hash changed", "checkpoint wrong, differs from the checkpoint held, leaf missing, tree hash changed", func(f *forged) {
		f.sql("ALTER TABLE audit_leaves DISABLE TRIGGER USER; DELETE FROM audit_leaves WHERE sequence = 5")
	}},
	{"swap the entries of two leaves", "content changed, leaf changed|leaf changed", "content changed, leaf changed|leaf changed", func(f *forged) {
		f.sql("ALTER TABLE audit_leaves DISABLE TRIGGER USER; ALTER TABLE audit_leaves DROP CONSTRAINT audit_leaves_entry_id_occurred_at_key; UPDATE audit_leaves l SET entry_id = o.entry_id, occurred_at = o.occurred_at FROM audit_leaves o WHERE l.entry_id IN ($1, $2) AND o.entry_id IN ($1, $2) AND l.entry_id <> o.entry_id", f.young[0].ID, f.young[1].ID)
	}},
	{"change an entry and its leaf", "checkpoint wrong, tree hash changed", "checkpoint wrong, differs from the checkpoint held, tree hash changed", func(f *forged) {
		f.rewrite(false)
	}},
	{"… and all hashes of the tree", "checkpoint wrong", "checkpoint wrong, differs from the checkpoint held", func(f *forged) {
		f.rewrite(true)
	}},
	{"… and wait for the sealer", "", "differs from the checkpoint held", func(f *forged) {
		f.rewrite(true)
		f.seal()
	}},
	{"put an entry in, with a leaf before the first", "unknown entry", "unknown entry", func(f *forged) {
		f.sql("ALTER TABLE audit_leaves DROP CONSTRAINT audit_leaves_sequence_check")
		f.strayWithLeaf("-1")
	}},
	{"… with a second leaf in the place of the last", "sealed twice", "sealed twice", func(f *forged) {
		f.sql("ALTER TABLE audit_leaves DROP CONSTRAINT audit_leaves_pkey; CREATE INDEX ON audit_leaves (sequence)")
		f.indexed()
		f.strayWithLeaf("(SELECT max(sequence) FROM audit_leaves)")
	}},
	{"make an entry of a prune, with such a leaf", "not covered by a prune, sealed twice", "not covered by a prune, sealed twice", func(f *forged) {
		f.sql("ALTER TABLE audit_leaves DROP CONSTRAINT audit_leaves_pkey; CREATE INDEX ON audit_leaves (sequence)")
		f.indexed()
		id := repo.NewID()
		f.forgePrune(id)
		f.sql("DELETE FROM audit_unsealed WHERE entry_id = $1; INSERT INTO audit_leaves (sequence, occurred_at, entry_id, hash, version, type, hidden) SELECT (SELECT max(sequence) FROM audit_leaves), occurred_at, id, decode(repeat('11', 32), 'hex'), 2, type, decode(repeat('11', 32), 'hex') FROM audit_entries WHERE id = $1", id)
	}},
	{"put a second entry beside the last one sealed", "sealed twice", "sealed twice", func(f *forged) {
		f.sql("ALTER TABLE audit_entries DROP CONSTRAINT audit_entries_pkey; INSERT INTO audit_entries (occurred_at, id, type, actor) SELECT occurred_at, id, 'user_approval', 'another' FROM audit_entries WHERE id = $1; DELETE FROM audit_unsealed WHERE entry_id = $1", f.late.ID)
	}},
	// Hashes.
	{"change a hash of the tree", "tree hash changed", "tree hash changed", func(f *forged) {
		f.sql("ALTER TABLE audit_hashes DISABLE TRIGGER USER; UPDATE audit_hashes SET hash = decode(repeat('11', 32), 'hex') WHERE index = 7")
	}},
	{"delete a hash of the tree", "tree hash changed", "tree hash changed", func(f *forged) {
		f.sql("ALTER TABLE audit_hashes DISABLE TRIGGER USER; DELETE FROM audit_hashes WHERE index = 7")
	}},
	{"put hashes where the sealer's next ones belong", "", "", func(f *forged) { // it stops: unsealed too long
		f.sql("INSERT INTO audit_hashes (index, hash) SELECT max(index) + 1, decode(repeat('11', 32), 'hex') FROM audit_hashes")
	}},
	// Checkpoints.
	{"change a checkpoint's root", "checkpoint wrong", "checkpoint wrong", func(f *forged) {
		f.sql("ALTER TABLE audit_checkpoints DISABLE TRIGGER USER; UPDATE audit_checkpoints SET root = decode(repeat('11', 32), 'hex')")
	}},
	{"put in a checkpoint that the key has not signed", "checkpoint wrong", "checkpoint wrong", func(f *forged) {
		f.sql("INSERT INTO audit_checkpoints (size, root, note) SELECT size + 1, root, note FROM audit_checkpoints ORDER BY size DESC LIMIT 1")
	}},
	{"delete the latest checkpoint", "checkpoint wrong", "checkpoint wrong, differs from the checkpoint held", func(f *forged) {
		f.sql("ALTER TABLE audit_checkpoints DISABLE TRIGGER USER; DELETE FROM audit_checkpoints WHERE size = (SELECT max(size) FROM audit_checkpoints)")
	}},
	{"delete all checkpoints", "checkpoint wrong", "checkpoint wrong, differs from the checkpoint held", func(f *forged) {
		f.sql("ALTER TABLE audit_checkpoints DISABLE TRIGGER USER; DELETE FROM audit_checkpoints")
	}},
	{"delete earlier checkpoints", "", "", func(f *forged) { // the latest states all that they did
		f.sql("ALTER TABLE audit_checkpoints DISABLE TRIGGER USER; DELETE FROM audit_checkpoints WHERE size < (SELECT max(size) FROM audit_checkpoints)")
	}},
	{"cut the log off: the last leaves, hashes, checkpoint and entries", "", "differs from the checkpoint held", func(f *forged) {
		f.cutOff()
	}},
	{"change which database it is", "checkpoint wrong", "checkpoint wrong, differs from the checkpoint held", func(f *forged) {
		f.sql("ALTER TABLE audit_identity DISABLE TRIGGER USER; UPDATE audit_identity SET id = gen_random_uuid()")
	}},
	{"take away which database it is", "checkpoint wrong", "checkpoint wrong, differs from the checkpoint held", func(f *forged) {
		f.sql("ALTER TABLE audit_identity DISABLE TRIGGER USER; DELETE FROM audit_identity")
	}},
	// Beside the log.
	{"lift a hold, and prune what was on it", "", "", func(f *forged) {
		f.sql("DELETE FROM audit_holds")
		if _, err := f.store.Trail().Prune(f.Context(), repo.AuditPrune{Before: time.Now().AddDate(0, -6, 0)}); err != nil {
			f.Fatal(err)
		}
		f.seal()
	}},
	{"empty the quarantine", "", "", func(f *forged) { f.sql("DELETE FROM audit_quarantine") }},
	// The schema.
	{"disable the triggers, and do nothing", "", "", func(f *forged) { // the doctor finds it
		f.sql("ALTER TABLE audit_entries DISABLE TRIGGER USER; ALTER TABLE audit_leaves DISABLE TRIGGER USER")
	}},
	{"replace the function that fills the queue", "unknown entry", "unknown entry", func(f *forged) {
		f.sql("CREATE OR REPLACE FUNCTION audit_queue() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), gen_random_uuid(), 'tool_invoked')")
	}},
	{"a trigger that changes what is being recorded", "", "", func(f *forged) {
		f.sql("CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.actor := 'another'; RETURN NEW; END $$; CREATE TRIGGER change BEFORE INSERT ON audit_entries FOR EACH ROW EXECUTE FUNCTION change()")
		f.record(entryAt(time.Now()))
		f.seal()
	}},
	{"a trigger that drops what is being recorded", "", "", func(f *forged) {
		f.sql("CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; CREATE TRIGGER skip BEFORE INSERT ON audit_entries FOR EACH ROW EXECUTE FUNCTION skip()")
		f.record(entryAt(time.Now()))
		f.seal()
	}},
	{"a default that says another time of recording", "", "", func(f *forged) {
		f.sql("ALTER TABLE audit_entries ALTER COLUMN recorded_at SET DEFAULT '2001-01-01Z'; ALTER TABLE audit_entries_" + time.Now().UTC().Format("200601") + " ALTER COLUMN recorded_at SET DEFAULT '2001-01-01Z'")
		f.record(entryAt(time.Now()))
		f.seal()
		if f.verifyWaitless(nil).Breaks != nil {
			f.Error("found after all")
		}
	}},
	{"set the queue's sequence back", "", "", func(f *forged) { // recording fails, loudly
		f.sql("ALTER TABLE audit_unsealed ALTER COLUMN position RESTART WITH 1")
		f.seal()
	}},
	{"a view in the place of the entries", "content changed", "content changed", func(f *forged) {
		f.sql("ALTER TABLE audit_entries RENAME TO kept; CREATE VIEW audit_entries AS SELECT occurred_at, id, recorded_at, type, 'another'::text AS actor, user_name, plan_id, session_id, project, details, nonce FROM kept")
	}},
	{"a view that hides an entry from who verifies", "entry missing", "entry missing", func(f *forged) {
		f.sql("ALTER TABLE audit_entries RENAME TO kept; CREATE VIEW audit_entries AS SELECT * FROM kept WHERE id <> $1", f.young[0].ID)
	}},
	{"show who verifies a copy, and others the rest (search_path)", "", "", func(f *forged) {
		for _, table := range []string{"audit_entries", "audit_leaves", "audit_hashes", "audit_checkpoints", "audit_unsealed", "audit_identity"} {
			f.sql("CREATE SCHEMA IF NOT EXISTS copy; CREATE TABLE copy." + table + " AS SELECT * FROM public." + table)
		}
		f.sql("ALTER DATABASE "+f.conn.Config().Database+" SET search_path = copy, public; "+off+"DELETE FROM public.audit_entries WHERE id = $1", f.young[0].ID)
		f.store.Pool().Reset()
	}},
}

const (
	off = "ALTER TABLE audit_entries DISABLE TRIGGER USER; "
	on  = "; ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_queue; ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_refuse"
)

// forgePrune removes an entry under the name of a prune that the forger made.
func (f *forged) forgePrune(id repo.ID) {
	f.sql("INSERT INTO audit_entries (occurred_at, id, type, details) VALUES (now(), $2, 'audit_pruned', '{\"before\":\"2100-01-01T00:00:00Z\"}'); DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = $2 WHERE entry_id = $1", f.young[0].ID, id)
}

// indexed has the first of two leaves in one place be read first.
func (f *forged) indexed() {
	f.sql("ALTER DATABASE " + f.conn.Config().Database + " SET enable_sort = off; ALTER DATABASE " + f.conn.Config().Database + " SET enable_seqscan = off")
	f.store.Pool().Reset()
}

// strayWithLeaf puts an entry into a month, recorded a year ago, and a leaf that makes
// it look sealed.
func (f *forged) strayWithLeaf(sequence string) {
	f.sql(off+"INSERT INTO audit_entries (occurred_at, id, recorded_at, type) VALUES (now(), $1, now() - interval '1 year', 'user_approval')"+on+
		"; INSERT INTO audit_leaves (sequence, occurred_at, entry_id, hash, version, type, hidden) SELECT "+sequence+
		", occurred_at, id, decode(repeat('11', 32), 'hex'), 2, type, decode(repeat('11', 32), 'hex') FROM audit_entries WHERE id = $1", repo.NewID())
}

// rewrite changes an entry, its leaf and, if tree, all hashes that follow from it, as
// somebody can who knows how they are made.
func (f *forged) rewrite(tree bool) {
	f.sql(off+"UPDATE audit_entries SET actor = 'another' WHERE id = $1"+on+"; ALTER TABLE audit_leaves DISABLE TRIGGER USER; ALTER TABLE audit_hashes DISABLE TRIGGER USER", f.young[0].ID)
	var all []repo.AuditLeaf
	for {
		page, err := f.store.Trail().Leaves(f.Context(), int64(len(all)), 1000)
		if err != nil {
			f.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		all = append(all, page...)
	}
	var hashes []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		found := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			found[i] = hashes[index]
		}
		return found, nil
	})
	for i, leaf := range all {
		if leaf.EntryID == f.young[0].ID {
			leaf.Hash = trail.LeafHash(*leaf.Entry)
			hidden := trail.HiddenHash(*leaf.Entry)
			exec(f.T, f.conn, "UPDATE audit_leaves SET hash = $1, hidden = $2 WHERE sequence = $3", leaf.Hash[:], hidden[:], leaf.Sequence)
		}
		added, err := tlog.StoredHashesForRecordHash(int64(i), leaf.Hash, reader)
		if err != nil {
			f.Fatal(err)
		}
		hashes = append(hashes, added...)
	}
	for index, hash := range hashes {
		if tree {
			exec(f.T, f.conn, "UPDATE audit_hashes SET hash = $1 WHERE index = $2", hash[:], index)
		}
	}
}

// cutOff takes the log back to the checkpoint before the latest.
func (f *forged) cutOff() {
	size := scan[int64](f.T, f.conn, "SELECT size FROM audit_checkpoints ORDER BY size DESC OFFSET 1 LIMIT 1")
	f.sql("ALTER TABLE audit_leaves DISABLE TRIGGER USER; ALTER TABLE audit_hashes DISABLE TRIGGER USER; ALTER TABLE audit_checkpoints DISABLE TRIGGER USER; ALTER TABLE audit_entries DISABLE TRIGGER USER")
	exec(f.T, f.conn, "DELETE FROM audit_entries e USING audit_leaves l WHERE l.entry_id = e.id AND l.sequence >= $1", size)
	exec(f.T, f.conn, "DELETE FROM audit_leaves WHERE sequence >= $1", size)
	exec(f.T, f.conn, "DELETE FROM audit_hashes WHERE index >= $1", tlog.StoredHashCount(size))
	exec(f.T, f.conn, "DELETE FROM audit_checkpoints WHERE size > $1", size)
}

// Each forgery is found, or is not, as docs/audit.md says.
func TestForgeries(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range forgeries {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newForged(t)
			test.do(f)
			alone, held := f.verifyWaitless(nil), f.verifyWaitless(f.held)
			for _, c := range []struct {
				want   string
				report trail.Report
			}{{test.alone, alone}, {test.held, held}} {
				if got := strings.Join(kinds(c.report), ", "); !slices.Contains(strings.Split(c.want, "|"), got) {
					t.Errorf("found %q, want %q: %+v", got, c.want, c.report.Breaks)
				}
			}
			row := "| " + test.name + " | " + found(test.alone) + " | " + found(test.held) + " |"
			if !strings.Contains(string(table), row) {
				t.Errorf("docs/audit.md has no row that begins %s", row)
			}
		})
	}
}

func found(kinds string) string {
	if kinds == "" {
		return "**not found**"
	}
	first, _, _ := strings.Cut(kinds, "|")
	return first
}

// A prune that the forger made is on record for good: the report names it.
func TestForgedPruneIsOnRecord(t *testing.T) {
	t.Parallel()
	f := newForged(t)
	id := repo.NewID()
	f.forgePrune(id)
	f.seal()
	report := f.verifyWaitless(f.held)
	if len(report.Prunes) != 2 || report.Prunes[1].EntryID != id || report.Prunes[1].Entries != 1 || report.Prunes[0].Entries != 10 ||
		report.Prunes[0].Actor != "keeper" || report.Prunes[0].Held == nil || len(report.Prunes[0].Held.Plans) != 1 {
		t.Errorf("the prunes are %+v", report.Prunes)
	}
}
