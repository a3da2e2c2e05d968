package postgres

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// A newer library may add columns while this one runs. A prepared statement whose
// result they change would fail from then on, and an INSERT without a list of columns
// would put values into the wrong ones.
func TestStatementsNameTheirColumns(t *testing.T) {
	files, err := filepath.Glob("../../db/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	seen := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range findStatements(string(content)) {
			seen++
			if found := unnamed.FindString(statement); found != "" {
				t.Errorf("%s: %q in %s", file, found, statement)
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d statements were found", seen)
	}
	for statement, want := range map[string]bool{
		"SELECT * FROM messages":                          true,
		"SELECT m.* FROM messages m":                      true,
		"INSERT INTO messages VALUES ($1)":                true,
		"INSERT INTO messages SELECT 1":                   true,
		"DELETE FROM messages RETURNING *":                true,
		"SELECT count(*), a * b FROM messages":            false,
		"INSERT INTO messages (id) SELECT 1 RETURNING id": false,
	} {
		if got := unnamed.MatchString(statement); got != want {
			t.Errorf("%s: %t", statement, got)
		}
	}
}

var (
	inBackticks = regexp.MustCompile("(?s)= `(-- name: .*?)`\n")
	unnamed     = regexp.MustCompile(`(?i)(\b(SELECT|RETURNING)\s+|,\s*|\w\.)\*|\bINSERT\s+INTO\s+\w+\s+(AS\s+\w+\s+)?(SELECT|VALUES|DEFAULT|WITH)\b`)
)

func findStatements(source string) (statements []string) {
	for _, match := range inBackticks.FindAllStringSubmatch(source, -1) {
		statements = append(statements, match[1])
	}
	return statements
}
