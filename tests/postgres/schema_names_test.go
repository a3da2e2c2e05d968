package postgres

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// TestConstraintNames checks that each name in constraints.go is in the catalog of a
// migrated database: if a constraint is renamed, its errors must still be recognized.
func TestConstraintNames(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../../repo/postgres/internal/convert/constraints.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	conn := pgtest.Connect(t, pgtest.NewDatabase(t))
	exists := func(name string) bool {
		found := pgtest.Value[bool](t, conn, "SELECT EXISTS (SELECT FROM pg_constraint WHERE conname = $1)", name)
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
		t.Error("the query finds a constraint that does not exist")
	}
}
