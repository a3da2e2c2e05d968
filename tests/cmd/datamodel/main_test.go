package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.."

// TestCurrent checks that the document is what the migrations say.
func TestCurrent(t *testing.T) {
	t.Parallel()
	want, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what make generate writes", document)
	}
}

// TestWithoutPurpose checks that a table whose comment does not say what a row is, is an error.
func TestWithoutPurpose(t *testing.T) {
	t.Parallel()
	const body = "CREATE TABLE a (\n    id uuid NOT NULL,\n    CONSTRAINT a_pkey PRIMARY KEY (id)\n);\n"
	for comment, purpose := range map[string]string{"": "", "-- no sentence\n-- at all.\n": "", "-- A row.\n-- More.\n": "A row."} {
		tables, err := parse("\n" + comment + body)
		if purpose == "" {
			if err == nil || !strings.Contains(err.Error(), "not a sentence") {
				t.Errorf("%q: %v", comment, err)
			}
			continue
		}
		if err != nil || len(tables) != 1 || tables[0].purpose != purpose || tables[0].key != "id" {
			t.Errorf("%q: %+v, %v", comment, tables, err)
		}
	}
}
