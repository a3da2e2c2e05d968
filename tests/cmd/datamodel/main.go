// Command datamodel writes docs/data-model.md from the migrations. Run it in the root of the repository.
//
// The comment above a CREATE TABLE begins with a line that says, in one sentence, what a row is.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const document = "docs/data-model.md"

// sections are the titles of the migrations, in their order.
var sections = []string{"Sessions", "State", "Leases", "Plans", "Streams", "The audit trail"}

// owners are the tables that a column refers to by its name, where the schema has no foreign key.
var owners = map[string]string{
	"session_id": "sessions", "plan_id": "plans", "stream_id": "streams", "entry_id": "audit_entries",
}

var (
	created = regexp.MustCompile(`(?ms)^((?:--[^\n]*\n)*)CREATE TABLE (\w+) \((.*?)^\)`)
	column  = regexp.MustCompile(`(?m)^    ([a-z_]+) `)
	primary = regexp.MustCompile(`PRIMARY KEY \(([^)]*)\)`)
	foreign = regexp.MustCompile(`FOREIGN KEY \(([^)]*)\)\s+REFERENCES (\w+)`)
)

// table is one of the schema.
type table struct {
	name, purpose, key string
	arrows             []arrow
}

// arrow leads from a table to the one that its columns refer to.
type arrow struct {
	columns, to string
	checked     bool // by a foreign key
}

func main() {
	text, err := generate(".")
	if err == nil {
		err = os.WriteFile(document, []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "datamodel:", err)
		os.Exit(1)
	}
}

// generate returns the document for the repository in a directory.
func generate(root string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, "schema", "migrations", "*.sql"))
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString(introduction)
	for i, file := range files {
		migration, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		tables, err := parse(string(migration))
		switch {
		case err != nil:
			return "", fmt.Errorf("%s: %w", filepath.Base(file), err)
		case len(tables) == 0:
			continue
		case i >= len(sections):
			return "", fmt.Errorf("%s has no section", filepath.Base(file))
		}
		fmt.Fprintf(&text, "\n## %s\n\n", sections[i])
		draw(&text, tables)
		list(&text, tables)
	}
	return text.String(), nil
}

// parse returns the tables of a migration.
func parse(migration string) (tables []table, err error) {
	for _, m := range created.FindAllStringSubmatch(migration, -1) {
		first, _, _ := strings.Cut(m[1], "\n")
		t := table{name: m[2], purpose: strings.TrimPrefix(first, "-- ")}
		if !strings.HasPrefix(first, "-- ") || !strings.HasSuffix(first, ".") {
			return nil, fmt.Errorf("the comment of %s begins with %q, which is not a sentence", t.name, first)
		}
		if key := primary.FindStringSubmatch(m[3]); key != nil {
			t.key = key[1]
		}
		checked := map[string]bool{}
		for _, key := range foreign.FindAllStringSubmatch(m[3], -1) {
			columns := strings.Join(strings.Fields(key[1]), " ")
			checked[columns] = true
			t.arrows = append(t.arrows, arrow{columns, key[2], true})
		}
		for _, c := range column.FindAllStringSubmatch(m[3], -1) {
			if to := owners[c[1]]; to != "" && to != t.name && !checked[c[1]] {
				t.arrows = append(t.arrows, arrow{c[1], to, false})
			}
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// draw writes the picture of tables, if an arrow leads from one of them.
func draw(text *strings.Builder, tables []table) {
	if !slices.ContainsFunc(tables, func(t table) bool { return len(t.arrows) > 0 }) {
		return
	}
	text.WriteString("```mermaid\nerDiagram\n")
	for _, t := range tables {
		for _, a := range t.arrows {
			line, many := "..", "o{"
			if a.checked {
				line = "--"
			}
			if a.columns == t.key {
				many = "o|"
			}
			fmt.Fprintf(text, "    %s ||%s%s %s : %q\n", a.to, line, many, t.name, a.columns)
		}
	}
	text.WriteString("```\n\n")
}

// list writes the tables with what they are for.
func list(text *strings.Builder, tables []table) {
	text.WriteString("| table | a row is | primary key |\n|---|---|---|\n")
	for _, t := range tables {
		fmt.Fprintf(text, "| `%s` | %s | %s |\n", t.name, strings.TrimSuffix(t.purpose, "."), t.key)
	}
}

const introduction = `<!-- Written by make generate, from the migrations. -->

# The data model

The tables, for queries and replication. Write through the library alone, whose transactions keep the [guarantees](guarantees.md).

- Read with the role ` + "`agentstore_reader`" + ` ([roles](operations.md#roles)). The files of [schema/migrations](../schema/migrations) explain each column.
- A released column keeps its name, type and meaning; later versions add columns and tables.
- A solid line is a foreign key. A dotted line is an id whose row may be deleted.
- [schema/personal.txt](../schema/personal.txt) names the columns that can have a person's data.
`
