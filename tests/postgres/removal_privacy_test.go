package postgres

import (
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Guarantee: Deletion: How each column with text is erased is in schema/personal.txt.
func TestEveryTextIsInTheListOfErasures(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("../../schema/personal.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		table, rest, _ := strings.Cut(strings.TrimSpace(line), " (")
		columns, how, _ := strings.Cut(rest, "): ")
		if how == "" {
			t.Errorf("nothing says how %s is erased", line)
		}
		for column := range strings.SplitSeq(columns, ", ") {
			listed[table+"."+column] = true
		}
	}
	conn := pgtest.Connect(t, pgtest.NewDatabase(t))
	rows, err := conn.Query(t.Context(), `SELECT c.table_name || '.' || c.column_name FROM information_schema.columns c
		WHERE c.table_schema = current_schema() AND (c.data_type IN ('text', 'json', 'jsonb', 'bytea', 'character varying', 'USER-DEFINED')
			OR c.data_type = 'ARRAY' AND c.udt_name IN ('_text', '_json', '_bytea'))`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !listed[name] {
			t.Errorf("nothing says how %s is erased", name)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("there is no text %s", name)
	}
}
