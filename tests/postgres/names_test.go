package postgres

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// TestConstraintNames looks up every name in constraints.go in the catalog of a
// migrated database: an error that is told by a constraint's name must not go
// unrecognized because the constraint was renamed.
func TestConstraintNames(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../../repo/postgres/constraints.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), pgtest.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	exists := func(name string) bool {
		var found bool
		if err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_constraint WHERE conname = $1)", name).Scan(&found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	names := 0
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		name, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		names++
		if !exists(name) {
			t.Errorf("the database has no constraint %s", name)
		}
		return true
	})
	if names == 0 {
		t.Error("constraints.go names no constraint")
	}
	if exists("messages_no_such_key") {
		t.Error("the look-up finds what is not there")
	}
}
