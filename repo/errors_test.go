package repo_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

var sentinels = repo.Sentinels()

// typed are the errors that hold facts: each type at least once.
func typed() []typedError {
	session, message := repo.NewID(), repo.NewID()
	name := repo.ActionName{Namespace: "local", Name: "review"}
	return []typedError{
		{&repo.InvalidError{Field: "actor", Reason: "is odd"}, []error{repo.ErrInvalid}, []string{"actor is odd"}},
		{&repo.NotFoundError{Kind: "session", ID: session}, []error{repo.ErrNotFound}, []string{"session " + session.String()}},
		{&repo.InsideTxError{}, []error{repo.ErrInvalid}, []string{"unit of work"}},
		{&repo.SequenceConflict{SessionID: session, Expected: 3, Next: 5}, []error{repo.ErrConflict}, []string{session.String(), "3", "5"}},
		{&repo.SessionConflict{ID: session, Field: "actor"}, []error{repo.ErrConflict}, []string{session.String(), "actor"}},
		{&repo.MessageConflict{SessionID: session, ID: message, Field: "content"}, []error{repo.ErrConflict},
			[]string{session.String(), message.String(), "content"}},
		{&repo.UsageConflict{SessionID: session, ID: message, Field: "input tokens"}, []error{repo.ErrConflict},
			[]string{session.String(), message.String(), "input tokens"}},
		{&repo.MessageConflict{SessionID: session, ID: message, Field: "batch"}, []error{repo.ErrConflict},
			[]string{session.String(), message.String(), "others of its batch are not"}},
		{&repo.BudgetExceeded{SessionID: session, Budget: 2 * repo.CostUnit, Cost: repo.CostUnit, Requested: repo.CostUnit + 1},
			[]error{repo.ErrBudgetExceeded}, []string{session.String(), "1 + 1.000000001", "of 2"}},
		{&repo.ImportError{Field: "messages[1].role", Reason: "is missing"}, []error{repo.ErrImport}, []string{"messages[1].role is missing"}},
		{&repo.ImportError{Field: "session.id", Reason: "is taken", Err: &repo.SessionConflict{ID: session, Field: "id"}},
			[]error{repo.ErrImport, repo.ErrConflict}, []string{"is taken", session.String()}},
		{&repo.ImportError{Field: "document", Reason: "is cut off", Err: io.ErrUnexpectedEOF},
			[]error{repo.ErrImport, io.ErrUnexpectedEOF}, []string{"is cut off"}},
		{&repo.ActionNotFound{Name: name}, []error{repo.ErrNotFound}, []string{"local/review"}},
		{&repo.ActionConflict{Name: name, Field: "version", Version: 7}, []error{repo.ErrConflict}, []string{"local/review", "7"}},
		{&repo.ActionUnavailable{Name: name, State: repo.ActionArchived}, []error{repo.ErrConflict}, []string{"local/review", "archived"}},
		{&repo.ActionInUse{Name: name}, []error{repo.ErrConflict}, []string{"local/review"}},
		{&repo.PlanConflict{ID: message, Field: "name"}, []error{repo.ErrConflict}, []string{message.String(), "name"}},
		{&repo.TransitionConflict{PlanID: message, Version: 7}, []error{repo.ErrConflict}, []string{message.String(), "7"}},
		{&repo.LimitExceeded{Kind: "depth", ID: message, Limit: 10}, []error{repo.ErrLimit}, []string{message.String(), "depth", "10"}},
	}
}

type typedError struct {
	err   error
	is    []error
	holds []string
}

// Each typed error is its sentinel and no other one, wrapped too, and its text
// holds the facts.
func TestTypedErrors(t *testing.T) {
	for _, test := range typed() {
		wrapped := fmt.Errorf("outer: %w", test.err)
		for _, want := range test.is {
			if !errors.Is(wrapped, want) {
				t.Errorf("%T is not %v", test.err, want)
			}
		}
		for _, sentinel := range sentinels {
			expected := false
			for _, want := range test.is {
				expected = expected || want == sentinel //nolint:errorlint // identity is meant
			}
			if errors.Is(wrapped, sentinel) != expected {
				t.Errorf("%T is %v: %v", test.err, sentinel, !expected)
			}
		}
		for _, part := range test.holds {
			if !strings.Contains(test.err.Error(), part) {
				t.Errorf("%q does not hold %q", test.err, part)
			}
		}
	}
}

func TestTypedErrorsKeepTheirFacts(t *testing.T) {
	var sequence *repo.SequenceConflict
	if !errors.As(fmt.Errorf("x: %w", &repo.SequenceConflict{Expected: 1, Next: 2}), &sequence) || sequence.Next != 2 {
		t.Error("SequenceConflict")
	}
	var budget *repo.BudgetExceeded
	if !errors.As(fmt.Errorf("x: %w", &repo.BudgetExceeded{Budget: 1, Requested: 2}), &budget) || budget.Requested != 2 {
		t.Error("BudgetExceeded")
	}
	var missing *repo.NotFoundError
	if !errors.As(fmt.Errorf("x: %w", &repo.NotFoundError{Kind: "message"}), &missing) || missing.Kind != "message" {
		t.Error("NotFoundError")
	}
	var session *repo.SessionConflict
	if !errors.As(error(&repo.ImportError{Err: &repo.SessionConflict{Field: "id"}}), &session) || session.Field != "id" {
		t.Error("SessionConflict within ImportError")
	}
	for i, a := range sentinels {
		for j, b := range sentinels {
			if i != j && errors.Is(a, b) {
				t.Errorf("%v is %v", a, b)
			}
		}
	}
}

// What the package's source declares: its sentinels by their texts, and the types
// that are errors.
func declared(t *testing.T) (texts, types []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil && d.Name.Name == "Error" {
					if star, ok := d.Recv.List[0].Type.(*ast.StarExpr); ok {
						types = append(types, star.X.(*ast.Ident).Name)
					}
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					value, ok := spec.(*ast.ValueSpec)
					if !ok || !strings.HasPrefix(value.Names[0].Name, "Err") {
						continue
					}
					text := value.Values[0].(*ast.CallExpr).Args[0].(*ast.BasicLit).Value
					texts = append(texts, strings.Trim(text, `"`))
				}
			}
		}
	}
	return texts, types
}

// The list of sentinels is whole, and each type of error is in the tests.
func TestSentinelsAreAll(t *testing.T) {
	texts, types := declared(t)
	if len(texts) < 12 || len(types) < 14 {
		t.Fatalf("found %d sentinels and %d types: this test does not find all", len(texts), len(types))
	}
	var listed []string
	for _, sentinel := range repo.Sentinels() {
		listed = append(listed, sentinel.Error())
	}
	slices.Sort(texts)
	slices.Sort(listed)
	if !slices.Equal(texts, listed) {
		t.Errorf("the package has the sentinels %q, Sentinels returns %q", texts, listed)
	}
	tested := map[string]bool{}
	for _, test := range typed() {
		tested[reflect.TypeOf(test.err).Elem().Name()] = true
	}
	for _, name := range types {
		if !tested[name] {
			t.Errorf("no test says which sentinel *%s is", name)
		}
	}
	// The caller's own copy.
	repo.Sentinels()[0] = nil
	if repo.Sentinels()[0] == nil {
		t.Error("a caller changes the list")
	}
}
