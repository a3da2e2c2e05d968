package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	trail "github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
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

// forgeries are what a role that may run any SQL can do, in the order of the table
// in docs/audit.md. alone is what verification with the public key finds, and held
// what it finds with a checkpoint that was kept elsewhere. Empty: the forgery is not
// found.
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
	{"change a salt", "content changed", "content changed", func(f *forged) {
		f.sql(off+"UPDATE audit_entries SET salts[1] = uuid_send(gen_random_uuid()) WHERE id = $1"+on, f.young[0].ID)
	}},
	{"move the beginning of a field into its salt", "content changed", "content changed", func(f *forged) {
		f.sql(off+"UPDATE audit_entries SET salts[1] = salts[1] || convert_to(left(actor, 1), 'UTF8'), actor = substr(actor, 2) WHERE id = $1"+on, f.young[0].ID)
	}},
	{"erase a field: keep its digest in the place of its salt", "", "", func(f *forged) { // the report counts it: see TestErasure
		f.sql(erase(1, "actor", "actor = NULL"), f.young[0].ID)
	}},
	{"… and put another value there", "content changed", "content changed", func(f *forged) {
		f.sql(erase(1, "actor", "actor = 'another'"), f.young[0].ID)
	}},
	{"erase a field without its digest", "content changed", "content changed", func(f *forged) {
		f.sql(off+"UPDATE audit_entries SET actor = NULL WHERE id = $1"+on, f.young[0].ID)
	}},
	{"set the plan's or session's id to zero where there was none", "", "", func(f *forged) {
		for _, column := range []string{"plan_id", "session_id"} {
			f.sql(off + "UPDATE audit_entries SET " + column + " = '00000000-0000-0000-0000-000000000000' WHERE " + column + " IS NULL" + on)
			f.sql("ALTER TABLE audit_leaves DISABLE TRIGGER USER; UPDATE audit_leaves SET " + column + " = '00000000-0000-0000-0000-000000000000' WHERE " +
				column + " IS NULL; ALTER TABLE audit_leaves ENABLE ALWAYS TRIGGER audit_leaves_refuse")
		}
	}},
	{"change when it occurred", "content changed", "content changed", func(f *forged) {
		f.sql(off+"UPDATE audit_entries SET occurred_at = occurred_at - interval '1 minute' WHERE id = $1"+on, f.young[0].ID)
	}},
	{"delete a sealed entry", "entry missing", "entry missing", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1", f.young[0].ID)
	}},
	{"insert an entry while the queue's trigger is disabled", "unknown entry", "unknown entry", func(f *forged) {
		f.sql("ALTER TABLE audit_entries DISABLE TRIGGER audit_entries_queue; INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), gen_random_uuid(), 'tool_invoked'); ALTER TABLE audit_entries ENABLE TRIGGER audit_entries_queue")
	}},
	{"insert an entry as a replica does, with session_replication_role", "unknown entry", "unknown entry", func(f *forged) {
		f.sql("SET session_replication_role = replica; INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), gen_random_uuid(), 'tool_invoked'); RESET session_replication_role")
	}},
	{"insert a pruned entry again, changed", "content changed", "content changed", func(f *forged) {
		f.sql("INSERT INTO audit_entries (occurred_at, id, type) SELECT occurred_at, entry_id, 'auth_success' FROM audit_leaves WHERE entry_id = $1; DELETE FROM audit_unsealed WHERE entry_id = $1", f.old[0].ID)
	}},
	{"record a false entry, as anyone who may record can", "", "", func(f *forged) {
		f.sql("INSERT INTO audit_entries (occurred_at, id, type, actor) VALUES (now(), gen_random_uuid(), 'user_approval', 'somebody')")
		f.seal()
	}},
	{"record a false entry with a false time of recording", "", "", func(f *forged) {
		f.sql("INSERT INTO audit_entries (occurred_at, id, recorded_at, type) VALUES (now() - interval '1 day', gen_random_uuid(), now() - interval '1 day', 'user_approval')")
		f.seal()
	}},
	{"change the type of a column", "content changed", "content changed", func(f *forged) {
		f.sql("ALTER TABLE audit_entries ALTER COLUMN actor TYPE varchar(3) USING left(actor, 3)")
	}},
	// What waits to be sealed.
	{"change an entry before it is sealed", "", "", func(f *forged) {
		f.sql(off+"UPDATE audit_entries SET actor = 'another' WHERE id = $1"+on, f.unsealed[0].ID)
		f.seal()
	}},
	{"delete an entry before it is sealed, and its row in the queue", "", "", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1; DELETE FROM audit_unsealed WHERE entry_id = $1", f.unsealed[0].ID)
	}},
	{"delete an entry before it is sealed", "entry missing", "entry missing", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1", f.unsealed[0].ID)
	}},
	{"delete an entry's row in the queue", "unknown entry", "unknown entry", func(f *forged) {
		f.sql("DELETE FROM audit_unsealed WHERE entry_id = $1", f.unsealed[0].ID)
	}},
	{"insert a row into the queue for which there is no entry", "entry missing", "entry missing", func(f *forged) {
		f.sql("INSERT INTO audit_unsealed (recorded_at, entry_id) VALUES (now(), gen_random_uuid())")
	}},
	{"insert a sealed entry into the queue again", "", "", func(f *forged) {
		f.sql("INSERT INTO audit_unsealed (recorded_at, entry_id) SELECT now(), id FROM audit_entries WHERE id = $1", f.young[0].ID)
		f.seal()
	}},
	{"delay entries, and reset the times in the queue", "unknown entry", "unknown entry", func(f *forged) {
		f.sql("UPDATE audit_unsealed SET recorded_at = now() + interval '1 hour'")
	}},
	{"delay entries, and reset their times and those in the queue", "", "", func(f *forged) {
		f.sql(off + "UPDATE audit_entries SET recorded_at = recorded_at + interval '1 hour' WHERE id IN (SELECT entry_id FROM audit_unsealed); UPDATE audit_unsealed SET recorded_at = recorded_at + interval '1 hour'" + on)
	}},
	{"have entries wait for hours", "unsealed too long", "unsealed too long", func(f *forged) {
		f.sql(off + "UPDATE audit_entries SET recorded_at = recorded_at - interval '2 hours' WHERE id IN (SELECT entry_id FROM audit_unsealed); UPDATE audit_unsealed SET recorded_at = recorded_at - interval '2 hours'" + on)
	}},
	// Prunes.
	{"delete as a prune does, naming an entry that does not exist", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = gen_random_uuid() WHERE entry_id = $1", f.young[0].ID)
	}},
	{"… naming an entry that is not a prune", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = $2 WHERE entry_id = $1", f.young[0].ID, f.young[1].ID)
	}},
	{"… naming a prune of older entries", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = $2 WHERE entry_id = $1", f.young[0].ID, f.prune)
	}},
	{"… naming a prune of other types", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE type = 'auth_failure'; UPDATE audit_leaves SET pruned_by = $1 WHERE type = 'auth_failure'", f.prune)
	}},
	{"… an entry that was on hold at the time", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = $2 WHERE entry_id = $1", f.heldPlan[0].ID, f.prune)
	}},
	{"… an entry that was sealed after the prune", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.sql("DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = $2 WHERE entry_id = $1", f.late.ID, f.prune)
	}},
	{"… and change what its leaf keeps, so that it is covered", "leaf changed", "leaf changed", func(f *forged) {
		f.sql("ALTER TABLE audit_leaves DISABLE TRIGGER USER; DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = $2, occurred_at = now() - interval '1 year' WHERE entry_id = $1; ALTER TABLE audit_leaves ENABLE ALWAYS TRIGGER audit_leaves_refuse", f.young[0].ID, f.prune)
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
	{"forge the entry of a prune, which is not sealed", "not covered by a prune", "not covered by a prune", func(f *forged) {
		f.forgePrune(repo.NewID())
	}},
	{"forge the entry of a prune, and wait for the sealer", "", "", func(f *forged) { // the report names it: see below
		f.forgePrune(repo.NewID())
		f.seal()
	}},
	// Leaves.
	{"delete a leaf", "checkpoint wrong, leaf missing, tree hash changed", "checkpoint wrong, differs from the checkpoint held, leaf missing, tree hash changed", func(f *forged) {
		f.sql("ALTER TABLE audit_leaves DISABLE TRIGGER USER; DELETE FROM audit_leaves WHERE sequence = 5")
	}},
	{"swap the entries of two leaves", "content changed, leaf changed|leaf changed", "content changed, leaf changed|leaf changed", func(f *forged) {
		f.sql("ALTER TABLE audit_leaves DISABLE TRIGGER USER; ALTER TABLE audit_leaves DROP CONSTRAINT audit_leaves_entry_id_key; UPDATE audit_leaves l SET entry_id = o.entry_id, occurred_at = o.occurred_at FROM audit_leaves o WHERE l.entry_id IN ($1, $2) AND o.entry_id IN ($1, $2) AND l.entry_id <> o.entry_id", f.young[0].ID, f.young[1].ID)
	}},
	{"change an entry and its leaf", "checkpoint wrong, tree hash changed", "checkpoint wrong, differs from the checkpoint held, tree hash changed", func(f *forged) {
		f.rewrite(false)
	}},
	{"… and all hashes of the tree", "checkpoint wrong", "checkpoint wrong, differs from the checkpoint held", func(f *forged) {
		f.rewrite(true)
	}},
	{"change an entry, its leaf and all hashes, and wait for the sealer", "", "differs from the checkpoint held", func(f *forged) {
		f.rewrite(true)
		f.seal()
	}},
	{"insert an entry, with a leaf before the first", "unknown entry", "unknown entry", func(f *forged) {
		f.sql("ALTER TABLE audit_leaves DROP CONSTRAINT audit_leaves_sequence_check")
		f.strayWithLeaf("-1")
	}},
	{"… with a second leaf in the place of the last", "sealed twice", "sealed twice", func(f *forged) {
		f.sql("ALTER TABLE audit_leaves DROP CONSTRAINT audit_leaves_pkey; CREATE INDEX ON audit_leaves (sequence)")
		f.indexed()
		f.strayWithLeaf("(SELECT max(sequence) FROM audit_leaves)")
	}},
	{"forge the entry of a prune, with such a leaf", "not covered by a prune, sealed twice", "not covered by a prune, sealed twice", func(f *forged) {
		f.sql("ALTER TABLE audit_leaves DROP CONSTRAINT audit_leaves_pkey; CREATE INDEX ON audit_leaves (sequence)")
		f.indexed()
		id := repo.NewID()
		f.forgePrune(id)
		f.sql("DELETE FROM audit_unsealed WHERE entry_id = $1; INSERT INTO audit_leaves (sequence, occurred_at, recorded_at, entry_id, hash, type, hidden) SELECT (SELECT max(sequence) FROM audit_leaves), occurred_at, recorded_at, id, decode(repeat('11', 32), 'hex'), type, decode(repeat('11', 32), 'hex') FROM audit_entries WHERE id = $1", id)
	}},
	{"insert a second entry with the id of the last one sealed", "sealed twice", "sealed twice", func(f *forged) {
		f.sql("ALTER TABLE audit_entries DROP CONSTRAINT audit_entries_pkey; INSERT INTO audit_entries (occurred_at, id, type, actor) SELECT occurred_at, id, 'user_approval', 'another' FROM audit_entries WHERE id = $1; DELETE FROM audit_unsealed WHERE entry_id = $1", f.late.ID)
	}},
	// Hashes.
	{"change a hash of the tree", "tree hash changed", "tree hash changed", func(f *forged) {
		f.sql("ALTER TABLE audit_hashes DISABLE TRIGGER USER; UPDATE audit_hashes SET hash = decode(repeat('11', 32), 'hex') WHERE index = 7")
	}},
	{"delete a hash of the tree", "tree hash changed", "tree hash changed", func(f *forged) {
		f.sql("ALTER TABLE audit_hashes DISABLE TRIGGER USER; DELETE FROM audit_hashes WHERE index = 7")
	}},
	{"insert hashes where the sealer's next ones belong", "", "", func(f *forged) { // the sealer fails, which is found as "unsealed too long"
		f.sql("INSERT INTO audit_hashes (index, hash) SELECT max(index) + 1, decode(repeat('11', 32), 'hex') FROM audit_hashes")
	}},
	// Checkpoints.
	{"change a checkpoint's root", "checkpoint wrong", "checkpoint wrong", func(f *forged) {
		f.sql("ALTER TABLE audit_checkpoints DISABLE TRIGGER USER; UPDATE audit_checkpoints SET root = decode(repeat('11', 32), 'hex')")
	}},
	{"insert a checkpoint that the key has not signed", "checkpoint wrong", "checkpoint wrong", func(f *forged) {
		f.sql("INSERT INTO audit_checkpoints (size, root, note) SELECT size + 1, root, note FROM audit_checkpoints ORDER BY size DESC LIMIT 1")
	}},
	{"delete the latest checkpoint", "checkpoint wrong", "checkpoint wrong, differs from the checkpoint held", func(f *forged) {
		f.sql("ALTER TABLE audit_checkpoints DISABLE TRIGGER USER; DELETE FROM audit_checkpoints WHERE size = (SELECT max(size) FROM audit_checkpoints)")
	}},
	{"delete all checkpoints", "checkpoint wrong", "checkpoint wrong, differs from the checkpoint held", func(f *forged) {
		f.sql("ALTER TABLE audit_checkpoints DISABLE TRIGGER USER; DELETE FROM audit_checkpoints")
	}},
	{"delete earlier checkpoints", "", "", func(f *forged) { // the latest covers everything that they did
		f.sql("ALTER TABLE audit_checkpoints DISABLE TRIGGER USER; DELETE FROM audit_checkpoints WHERE size > 0 AND size < (SELECT max(size) FROM audit_checkpoints)")
	}},
	{"change earlier checkpoints", "", "", func(f *forged) {
		f.sql("ALTER TABLE audit_checkpoints DISABLE TRIGGER USER; UPDATE audit_checkpoints SET root = decode(repeat('11', 32), 'hex') WHERE size > 0 AND size < (SELECT max(size) FROM audit_checkpoints)")
	}},
	{"truncate the log: delete the last leaves, hashes, checkpoint and entries", "", "differs from the checkpoint held", func(f *forged) {
		f.cutOff()
	}},
	{"change the identity of the database", "checkpoint wrong", "checkpoint wrong, differs from the checkpoint held", func(f *forged) {
		f.sql("ALTER TABLE audit_checkpoints DISABLE TRIGGER USER; UPDATE audit_checkpoints SET note = uuid_send(gen_random_uuid()) WHERE size = 0")
	}},
	{"delete the identity of the database", "checkpoint wrong", "checkpoint wrong, differs from the checkpoint held", func(f *forged) {
		f.sql("ALTER TABLE audit_checkpoints DISABLE TRIGGER USER; DELETE FROM audit_checkpoints WHERE size = 0")
	}},
	// Outside the log.
	{"lift a hold, and prune its entries", "", "", func(f *forged) {
		f.sql("DELETE FROM audit_holds")
		if _, err := f.store.AuditLog().Prune(f.Context(), auditlog.Prune{Before: time.Now().AddDate(0, -6, 0)}); err != nil {
			f.Fatal(err)
		}
		f.seal()
	}},
	{"empty the quarantine", "", "", func(f *forged) { f.sql("DELETE FROM audit_quarantine") }},
	// The schema.
	{"disable the triggers, and change nothing", "", "", func(f *forged) { // the doctor finds it
		f.sql("ALTER TABLE audit_entries DISABLE TRIGGER USER; ALTER TABLE audit_leaves DISABLE TRIGGER USER")
	}},
	{"replace the function that refuses changes", "", "", func(f *forged) { // the doctor finds it
		f.sql("CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$")
	}},
	{"replace the function that fills the queue", "unknown entry", "unknown entry", func(f *forged) {
		f.sql("CREATE OR REPLACE FUNCTION audit_queue() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), gen_random_uuid(), 'tool_invoked')")
	}},
	{"add a trigger that changes entries as they are recorded", "", "", func(f *forged) {
		f.sql("CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.actor := 'another'; RETURN NEW; END $$; CREATE TRIGGER change BEFORE INSERT ON audit_entries FOR EACH ROW EXECUTE FUNCTION change()")
		f.record(entryAt(time.Now()))
		f.seal()
	}},
	{"add a trigger that drops entries as they are recorded", "", "", func(f *forged) { // recording fails: see TestDroppedEntryIsNotKnown
		f.sql("CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; CREATE TRIGGER skip BEFORE INSERT ON audit_entries FOR EACH ROW EXECUTE FUNCTION skip()")
	}},
	{"set a default that records another time of recording", "", "", func(f *forged) {
		f.sql("ALTER TABLE audit_entries ALTER COLUMN recorded_at SET DEFAULT '2001-01-01Z'")
		f.record(entryAt(time.Now()))
		f.seal()
		if f.verifyWaitless(nil).Breaks != nil {
			f.Error("found after all")
		}
	}},
	{"replace the entries by a view", "content changed", "content changed", func(f *forged) {
		f.sql("ALTER TABLE audit_entries RENAME TO kept; CREATE VIEW audit_entries AS SELECT id, occurred_at, recorded_at, type, namespace, plan_id, session_id, 'another'::text AS actor, user_name, project, details, salts FROM kept")
	}},
	{"replace the entries by a view that hides one from the verifier", "entry missing", "entry missing", func(f *forged) {
		f.sql("ALTER TABLE audit_entries RENAME TO kept; CREATE VIEW audit_entries AS SELECT * FROM kept WHERE id <> $1", f.young[0].ID)
	}},
	{"show the verifier a copy by its search_path", "", "", func(f *forged) {
		own := pgtest.Value[string](f.T, f.conn, "SELECT quote_ident(current_schema())")
		for _, table := range []string{"audit_entries", "audit_leaves", "audit_hashes", "audit_checkpoints", "audit_unsealed"} {
			f.sql("CREATE SCHEMA IF NOT EXISTS copy; CREATE TABLE copy." + table + " AS SELECT * FROM " + own + "." + table)
		}
		f.sql("ALTER DATABASE "+f.conn.Config().Database+" SET search_path = copy, "+own+"; "+off+"DELETE FROM "+own+".audit_entries WHERE id = $1", f.young[0].ID)
		f.store.Pool().Reset()
	}},
}

const (
	off = "ALTER TABLE audit_entries DISABLE TRIGGER USER; "
	on  = "; ALTER TABLE audit_entries ENABLE TRIGGER USER; ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_refuse; ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_keep"
)

// erase is the SQL of an erasure: a field's digest takes the place of its salt, and set
// removes the value.
func erase(salt int, line, set string) string {
	return fmt.Sprintf(off+"UPDATE audit_entries SET salts[%[1]d] = sha256(convert_to(E'agentstore/audit %[2]s 1\\n', 'UTF8') || int8send(octet_length(salts[%[1]d])) || salts[%[1]d] || "+
		"convert_to(coalesce((CASE %[1]d WHEN 1 THEN actor WHEN 2 THEN user_name WHEN 3 THEN project ELSE details::text END), ''), 'UTF8')), %[3]s WHERE id = $1"+on, salt, line, set)
}

// A field that the owner erases is still verified, and the report tells how many entries
// have such fields.
func TestErasure(t *testing.T) {
	t.Parallel()
	f := newForged(t)
	for salt, field := range map[int]struct{ line, set string }{
		1: {"actor", "actor = NULL"}, 2: {"user", "user_name = NULL"}, 3: {"project", "project = NULL"}, 4: {"details", "details = '{}'"},
	} {
		f.sql(erase(salt, field.line, field.set), f.young[salt].ID)
		f.sql(erase(salt, field.line, field.set), f.young[0].ID)
		f.sql(erase(salt, field.line, field.set), f.unsealed[0].ID)
	}
	for _, sealed := range []int64{5, 6} { // the unsealed one is sealed with its digests
		report := f.verify(f.held)
		if !report.Intact() || report.Erased != sealed {
			t.Errorf("%+v", report)
		}
		f.seal()
	}
	// Recorded again, as by a spool, it is the same entry: what was erased cannot be compared.
	f.record(f.young[0])
	proof, err := trail.Prove(t.Context(), f.store.AuditLog(), f.young[0].ID)
	if err != nil || proof.Entry.Actor != "" || trail.CheckProof(proof, f.verifier) != nil {
		t.Errorf("its proof: %+v, %v", proof, err)
	}
	f.sql(off+"UPDATE audit_entries SET namespace = 'another' WHERE id = $1"+on, f.young[0].ID)
	if got := kinds(f.verify(nil)); len(got) != 1 || got[0] != string(trail.BreakContent) {
		t.Errorf("after another change: %v", got)
	}
}

// forgePrune removes an entry, naming a prune that the forger made up.
func (f *forged) forgePrune(id repo.ID) {
	f.sql("INSERT INTO audit_entries (occurred_at, id, type, details) VALUES (now(), $2, 'audit_pruned', '{\"before\":\"2100-01-01T00:00:00Z\"}'); DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = $2 WHERE entry_id = $1", f.young[0].ID, id)
}

// indexed makes the first of two leaves with one index be read first.
func (f *forged) indexed() {
	f.sql("ALTER DATABASE " + f.conn.Config().Database + " SET enable_sort = off; ALTER DATABASE " + f.conn.Config().Database + " SET enable_seqscan = off")
	f.store.Pool().Reset()
}

// strayWithLeaf inserts an entry that was recorded a year ago, with a leaf that makes it
// look sealed.
func (f *forged) strayWithLeaf(sequence string) {
	f.sql(off+"INSERT INTO audit_entries (occurred_at, id, recorded_at, type) VALUES (now(), $1, now() - interval '1 year', 'user_approval')"+on+
		"; INSERT INTO audit_leaves (sequence, occurred_at, recorded_at, entry_id, hash, type, hidden) SELECT "+sequence+
		", occurred_at, recorded_at, id, decode(repeat('11', 32), 'hex'), type, decode(repeat('11', 32), 'hex') FROM audit_entries WHERE id = $1", repo.NewID())
}

// rewrite changes an entry, its leaf and, if tree, all hashes that depend on it, as
// a forger can that knows how they are computed.
func (f *forged) rewrite(tree bool) {
	f.sql(off+"UPDATE audit_entries SET actor = 'another' WHERE id = $1"+on+"; ALTER TABLE audit_leaves DISABLE TRIGGER USER; ALTER TABLE audit_hashes DISABLE TRIGGER USER", f.young[0].ID)
	var all []auditlog.Leaf
	for {
		page, err := f.store.AuditLog().Leaves(f.Context(), int64(len(all)), 1000)
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
			hidden := hiddenHash(*leaf.Entry)
			pgtest.Exec(f.T, f.conn, "UPDATE audit_leaves SET hash = $1, hidden = $2 WHERE sequence = $3", leaf.Hash[:], hidden[:], leaf.Sequence)
		}
		added, err := tlog.StoredHashesForRecordHash(int64(i), leaf.Hash, reader)
		if err != nil {
			f.Fatal(err)
		}
		hashes = append(hashes, added...)
	}
	for index, hash := range hashes {
		if tree {
			pgtest.Exec(f.T, f.conn, "UPDATE audit_hashes SET hash = $1 WHERE index = $2", hash[:], index)
		}
	}
}

// hiddenHash computes the hidden hash of a leaf, as the comment of audit.LeafHash
// describes it.
func hiddenHash(entry auditlog.Entry) [32]byte {
	hidden := []byte("agentstore/audit hidden 1\n")
	for i, field := range [][2]string{{"actor", entry.Actor}, {"user", entry.User}, {"project", entry.Project}, {"details", string(entry.Details)}} {
		text := []byte("agentstore/audit " + field[0] + " 1\n")
		text = append(binary.BigEndian.AppendUint64(text, 16), entry.Salts[i]...)
		digest := sha256.Sum256(append(text, field[1]...))
		hidden = append(hidden, digest[:]...)
	}
	return sha256.Sum256(hidden)
}

// cutOff truncates the log to the checkpoint before the latest.
func (f *forged) cutOff() {
	size := pgtest.Value[int64](f.T, f.conn, "SELECT size FROM audit_checkpoints ORDER BY size DESC OFFSET 1 LIMIT 1")
	f.sql("ALTER TABLE audit_leaves DISABLE TRIGGER USER; ALTER TABLE audit_hashes DISABLE TRIGGER USER; ALTER TABLE audit_checkpoints DISABLE TRIGGER USER; ALTER TABLE audit_entries DISABLE TRIGGER USER")
	pgtest.Exec(f.T, f.conn, "DELETE FROM audit_entries e USING audit_leaves l WHERE l.entry_id = e.id AND l.sequence >= $1", size)
	pgtest.Exec(f.T, f.conn, "DELETE FROM audit_leaves WHERE sequence >= $1", size)
	pgtest.Exec(f.T, f.conn, "DELETE FROM audit_hashes WHERE index >= $1", tlog.StoredHashCount(size))
	pgtest.Exec(f.T, f.conn, "DELETE FROM audit_checkpoints WHERE size > $1", size)
}

// Each forgery is found or not, as docs/audit.md says.
// Guarantee: The audit trail: Verification finds what docs/audit.md says.
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
			// The table has what is not found with the public key alone.
			row := "| " + test.name + " | " + found(test.held) + " |"
			if got := strings.Contains(string(table), row); got != (test.alone == "") {
				t.Errorf("docs/audit.md has the row %s: %t", row, got)
			}
		})
	}
}

func found(kinds string) string {
	if kinds == "" {
		return "**missed**"
	}
	first, _, _ := strings.Cut(kinds, "|")
	return first
}

// A prune that the forger recorded stays in the report.
func TestForgedPruneIsOnRecord(t *testing.T) {
	t.Parallel()
	f := newForged(t)
	id := repo.NewID()
	f.forgePrune(id)
	f.seal()
	report := f.verifyWaitless(f.held)
	if len(report.Prunes) != 2 || report.Prunes[1].EntryID != id || report.Prunes[1].Entries != 1 || report.Prunes[0].Entries != 10 ||
		report.Prunes[0].Actor != "keeper" || len(report.Prunes[0].Held.Plans) != 1 {
		t.Errorf("the prunes are %+v", report.Prunes)
	}
}
