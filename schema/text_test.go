package schema

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
)

func TestSQLGivesOneDirectionWithoutAnnotations(t *testing.T) {
	up, err := SQL(1, DirectionUp)
	if err != nil {
		t.Fatal(err)
	}
	down, err := SQL(1, DirectionDown)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(up, "CREATE TABLE sessions") || strings.Contains(up, "DROP TABLE") {
		t.Errorf("up:\n%s", up)
	}
	if !strings.Contains(down, "DROP TABLE ") || strings.Contains(down, "CREATE TABLE") {
		t.Errorf("down:\n%s", down)
	}
	if strings.Contains(up+down, "+goose") {
		t.Error("annotations are left in the text")
	}
}

func TestSQLOfAnUnknownVersion(t *testing.T) {
	_, err := SQL(9999, DirectionUp)
	var unknown *UnknownVersionError
	if !errors.Is(err, ErrUnknownVersion) || !errors.As(err, &unknown) || unknown.Version != 9999 {
		t.Errorf("got %v", err)
	}
}

func TestMigrationTextKeepsStatementBlocks(t *testing.T) {
	fsys := fstest.MapFS{"0001_a.sql": {Data: []byte("-- +goose Up\n-- +goose StatementBegin\nDO $$ x; y; $$;\n-- +goose StatementEnd\nSELECT 1;\n-- +goose Down\nSELECT 2;\n")}}
	got, err := migrationText(fsys, Migration{file: "0001_a.sql"}, DirectionUp)
	if err != nil {
		t.Fatal(err)
	}
	if want := "DO $$ x; y; $$;\nSELECT 1;\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Citus cannot take back a schema that has a column of sequences, which count apart on each node.
func TestNoColumnIsAnIdentity(t *testing.T) {
	for _, m := range List() {
		up, err := SQL(m.Version, DirectionUp)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"AS IDENTITY", "serial", "nextval("} {
			if strings.Contains(up, word) {
				t.Errorf("migration %d has %q", m.Version, word)
			}
		}
	}
}
