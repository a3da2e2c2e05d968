package schema

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestSentinelOf(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		ctx  context.Context
		err  error
		want error
	}{
		{t.Context(), &pgconn.PgError{Code: "28P01"}, ErrPermission},
		{t.Context(), &pgconn.PgError{Code: "42501"}, ErrPermission},
		{t.Context(), &pgconn.PgError{Code: "3D000"}, ErrUnavailable},
		{t.Context(), &pgconn.PgError{Code: "53300"}, ErrUnavailable},
		{t.Context(), &pgconn.PgError{Code: "57P01"}, ErrUnavailable},
		{t.Context(), &pgconn.PgError{Code: "57014"}, ErrFailed},
		{t.Context(), &pgconn.PgError{Code: "42601"}, ErrFailed},
		{t.Context(), &pgconn.PgError{}, ErrFailed},
		{t.Context(), &net.OpError{Op: "read", Err: errors.New("reset")}, ErrUnavailable},
		{t.Context(), io.ErrUnexpectedEOF, ErrUnavailable},
		{t.Context(), errors.New("failed to parse SQL migration file"), ErrFailed},
		{t.Context(), &StepError{Err: ErrDataLoss}, ErrDataLoss},
		{t.Context(), &LockedError{}, ErrLocked},
		{ended, io.ErrUnexpectedEOF, context.Canceled},
		{ended, context.Canceled, context.Canceled},
		{ended, ErrURL, ErrURL},
	} {
		got := withSentinel(test.ctx, test.err)
		if !errors.Is(got, test.want) || !errors.Is(got, test.err) || got.Error() != test.err.Error() {
			t.Errorf("%v became %v, want %v", test.err, got, test.want)
		}
	}
	if err := withSentinel(t.Context(), nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestInvalidArguments(t *testing.T) {
	for name, call := range map[string]func() error{
		"no pool":        func() error { _, err := New(nil, Options{}); return err },
		"empty target":   func() error { return checkTarget(List(), Target{}) },
		"no step":        func() error { return checkTarget(List(), TargetUpSteps(0)) },
		"below zero":     func() error { return checkTarget(List(), TargetDown(-1)) },
		"no files":       func() error { _, err := readMigrations(fstest.MapFS{}); return err },
		"a file's name":  func() error { _, err := readMigrations(fstest.MapFS{"first.sql": {}}); return err },
		"a role's name":  func() error { _, err := Grants(Roles{Reader: "a$"}); return err },
		"one role twice": func() error { _, err := Grants(Roles{Reader: "a", Audit: "a"}); return err },
	} {
		if err := call(); !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), "schema: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every exported function that returns an error and may reach the database passes it
// through withSentinel, and Sentinels has every sentinel.
func TestExportedErrorsHaveSentinels(t *testing.T) {
	without := []string{"New", "Grants", "SQL", "Error", "Unwrap"} // their own errors alone: TestInvalidArguments
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	sentinels, checked := 0, 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ValueSpec:
				if strings.HasPrefix(node.Names[0].Name, "Err") {
					sentinels++
				}
			case *ast.FuncDecl:
				if !node.Name.IsExported() || node.Recv != nil && !isMigrator(node.Recv) || slices.Contains(without, node.Name.Name) || !returnsError(node) {
					return false
				}
				checked++
				if !calls(node.Body.List[0], "withSentinel") {
					t.Errorf("%s does not begin with a deferred withSentinel", node.Name.Name)
				}
			}
			return true
		})
	}
	if sentinels != len(Sentinels()) || checked < 8 {
		t.Errorf("%d sentinels, of which Sentinels has %d; %d functions", sentinels, len(Sentinels()), checked)
	}
}

func isMigrator(receiver *ast.FieldList) bool {
	pointer, ok := receiver.List[0].Type.(*ast.StarExpr)
	return ok && pointer.X.(*ast.Ident).Name == "Migrator"
}

func returnsError(function *ast.FuncDecl) bool {
	results := function.Type.Results
	if results == nil {
		return false
	}
	last, ok := results.List[len(results.List)-1].Type.(*ast.Ident)
	return ok && last.Name == "error"
}

func calls(node ast.Node, name string) (found bool) {
	ast.Inspect(node, func(node ast.Node) bool {
		called, ok := node.(*ast.Ident)
		found = found || ok && called.Name == name
		return true
	})
	return found
}
