package copies

import (
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/tests/tables"
)

// testErased puts a name into all texts that calls take. After the erasure pg_dump does not have it, and of another person
// with the same data each row is what it was.
// Guarantee: Deletion: After an erasure pg_dump has nothing of the person, and others' rows unchanged.
// Guarantee: Deletion: After an erasure the audit trail verifies.
func (s server) testErased(t *testing.T) {
	const canary, other = "canary@example.com", "somebody@else.example"
	url := s.newDatabase(t, "erased")
	if err := schema.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	store := pgtest.OpenStore(t, url, agentstore.Options{})
	repotest.Person(t, store, canary, "1")
	tables.Seal(t, store)
	repotest.Person(t, store, other, "2")
	if before, list := strings.Join(columnsWith(t, store, canary), " "), personal(t); before != strings.Join(list, " ") {
		t.Errorf("the canary was put into\n%s, the list has\n%s", before, strings.Join(list, " "))
	}
	theirs := lines(s.dump(t, url), other)
	request := erase.Request{Owner: canary, Scopes: []string{canary}, RequestedBy: "officer", Reason: "request 17", Key: []byte("sixteen bytes or")}
	receipt, err := erase.Subject(t.Context(), store, request)
	if err != nil || receipt.Live > 0 || receipt.Held > 0 || receipt.Sessions != 2 || receipt.Plans != 2 || receipt.Actors != 1 || receipt.Entries == 0 || receipt.Events == 0 || receipt.Texts == 0 {
		t.Fatalf("%+v, %v", receipt, err)
	}
	dump := s.dump(t, url)
	if found := lines(dump, canary); len(found) > 0 {
		t.Errorf("%d lines of the dump have the canary, in %v; %+v", len(found), columnsWith(t, store, canary), receipt)
	}
	if after := lines(dump, other); !slices.Equal(after, theirs) {
		t.Errorf("%d lines are about another person, there were %d", len(after), len(theirs))
	}
	tables.Seal(t, store)
	report, err := audit.Verify(t.Context(), store.AuditLog(), audit.VerifyOptions{})
	if err != nil || !report.Intact() || report.Erased == 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if findings, err := store.AuditLog().Doctor(t.Context()); err != nil || len(findings) != 1 || findings[0].Check != "quarantine" {
		t.Errorf("%+v, %v", findings, err)
	}
	again, err := erase.Subject(t.Context(), store, request)
	if err != nil || again.Sessions+again.Entries+again.Events+again.Altered+again.Texts > 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// lines returns those of a dump that have a name, as text or as bytes, sorted.
func lines(dump, name string) (found []string) {
	for line := range strings.Lines(dump) {
		if strings.Contains(line, name) || strings.Contains(line, hex.EncodeToString([]byte(name))) {
			found = append(found, line)
		}
	}
	slices.Sort(found)
	return found
}

func columnsWith(t *testing.T, store *agentstore.Store, name string) (found []string) {
	t.Helper()
	for _, table := range tables.Names(t, store.Pool()) {
		rows, err := store.Pool().Query(t.Context(), `SELECT DISTINCT $1 || '.' || c.key FROM `+table+` t, json_each_text(row_to_json(t)) AS c (key, value)
			WHERE position($2 IN c.value) > 0 OR position(encode(convert_to($2, 'UTF8'), 'hex') IN c.value) > 0`, pgx.QueryExecModeSimpleProtocol, table, name)
		if err != nil {
			t.Fatal(err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, names...)
	}
	slices.Sort(found)
	return found
}

// personal returns the columns that an erasure erases, but for digests, salts, and names of arguments, which no text contains.
func personal(t *testing.T) (columns []string) {
	t.Helper()
	list, err := os.ReadFile("../../schema/personal.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		table, rest, _ := strings.Cut(line, " (")
		names, how, _ := strings.Cut(rest, "): ")
		for column := range strings.SplitSeq(names, ", ") {
			if strings.HasPrefix(how, "erase: ") && column != "digest" && column != "salts" && column != "argument_names" {
				columns = append(columns, table+"."+column)
			}
		}
	}
	slices.Sort(columns)
	return columns
}
