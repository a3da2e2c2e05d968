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
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

var sentinels = repo.Sentinels()

// typed has at least one error of each type with fields.
func typed() []typedError {
	session, message := repo.NewID(), repo.NewID()
	name := repo.ActionName{Namespace: "local", Name: "review"}
	return []typedError{
		{&repo.InvalidError{Field: "actor", Reason: "is odd"}, []error{repo.ErrInvalid}, []string{"actor is odd"}},
		{&repo.NotFoundError{Kind: "session", ID: session}, []error{repo.ErrNotFound}, []string{"session " + session.String()}},
		{&repo.NotFoundError{Kind: "session", ID: session, Gone: true}, []error{repo.ErrNotFound, repo.ErrGone}, []string{"session " + session.String(), "deleted"}},
		{
			&repo.NotFoundError{Kind: "session", Name: "a\n/b", Namespace: "local"},
			[]error{repo.ErrNotFound},
			[]string{`session "a\n/b"`, `namespace "local"`},
		},
		{&repo.SequenceConflictError{Kind: "session", ID: session, Expected: 3, Next: 5}, []error{repo.ErrConflict}, []string{session.String(), "3", "5"}},
		{&repo.ExistsError{Kind: "session", ID: session, Field: "actor"}, []error{repo.ErrConflict}, []string{session.String(), "actor"}},
		{&repo.VersionConflictError{Kind: "session", ID: session, Expected: 3, Actual: 5}, []error{repo.ErrConflict}, []string{session.String(), "3", "5"}},
		{
			&repo.ExistsError{Kind: "message", SessionID: session, ID: message, Field: "content"},
			[]error{repo.ErrConflict},
			[]string{session.String(), message.String(), "content"},
		},
		{
			&repo.ExistsError{Kind: "usage", SessionID: session, ID: message, Field: "input tokens"},
			[]error{repo.ErrConflict},
			[]string{session.String(), message.String(), "input tokens"},
		},
		{
			&repo.ExistsError{Kind: "turn", SessionID: session, Name: "turn\n1"},
			[]error{repo.ErrConflict},
			[]string{session.String(), `"turn\n1"`, "other contents"},
		},
		{&repo.ExistsError{Kind: "audit entry", ID: message}, []error{repo.ErrConflict}, []string{message.String(), "other contents"}},
		{
			&repo.ExistsError{Kind: "message", SessionID: session, ID: message, Field: "batch"},
			[]error{repo.ErrConflict},
			[]string{session.String(), message.String(), "others of its batch are not"},
		},
		{
			&repo.LimitExceededError{Kind: "budget", ID: session, Limit: int64(2 * repo.CostUnit), Current: int64(repo.CostUnit), Requested: int64(repo.CostUnit + 1)},
			[]error{repo.ErrLimit},
			[]string{session.String(), "1 + 1.000000001", "of 2"},
		},
		{&repo.ImportError{Field: "messages[1].role", Reason: "is missing"}, []error{repo.ErrImport}, []string{"messages[1].role is missing"}},
		{
			&repo.ImportError{Field: "session.id", Reason: "is taken", Err: &repo.ExistsError{Kind: "session", ID: session, Field: "id"}},
			[]error{repo.ErrImport, repo.ErrConflict},
			[]string{"is taken", session.String()},
		},
		{
			&repo.ImportError{Field: "document", Reason: "is cut off", Err: io.ErrUnexpectedEOF},
			[]error{repo.ErrImport, io.ErrUnexpectedEOF},
			[]string{"is cut off"},
		},
		{&repo.NotFoundError{Kind: "action", Name: name.String()}, []error{repo.ErrNotFound}, []string{"local/review"}},
		{&repo.VersionConflictError{Kind: "action", Name: name.String(), Actual: 7}, []error{repo.ErrConflict}, []string{"local/review", "7"}},
		{&repo.RefusedError{Kind: "action", Name: name.String(), Reason: "is archived"}, []error{repo.ErrConflict}, []string{"local/review", "archived"}},
		{&repo.RefusedError{Kind: "action", Name: name.String(), Reason: "is in use"}, []error{repo.ErrConflict}, []string{"local/review"}},
		{&repo.ExistsError{Kind: "plan", ID: message, Field: "name"}, []error{repo.ErrConflict}, []string{message.String(), "name"}},
		{&repo.TransitionConflictError{PlanID: message, Version: 7}, []error{repo.ErrConflict}, []string{message.String(), "7"}},
		{&repo.NotFoundError{Kind: "state", Scope: repo.Scope{Name: "app"}, Name: "a"}, []error{repo.ErrNotFound}, []string{`"app"`, `key "a"`}},
		{
			&repo.VersionConflictError{Kind: "state", Scope: repo.Scope{SessionID: session}, Name: "a", Expected: 3, Actual: 4},
			[]error{repo.ErrConflict},
			[]string{session.String(), `"a"`, "3", "4"},
		},
		{&repo.VersionConflictError{Kind: "state", Scope: repo.Scope{Name: "app"}, Expected: 3, Actual: 4}, []error{repo.ErrConflict}, []string{`"app"`, "3", "4"}},
		{&repo.RefusedError{Kind: "state", Scope: repo.Scope{Name: "app"}, Name: "a", Reason: "is not x"}, []error{repo.ErrConflict}, []string{`"app"`, `"a" is not x`}},
		{
			&repo.LeaseConflictError{Key: repo.LeaseKey{Kind: "project", Name: "a\nb"}, Holder: "worker", ExpiresAt: time.Unix(0, 0).UTC()},
			[]error{repo.ErrConflict},
			[]string{`"project" "a\nb"`, `"worker"`, "1970-01-01T00:00:00Z"},
		},
		{&repo.FencedError{Key: repo.SessionLease(message), Fence: 7, Latest: 9}, []error{repo.ErrConflict}, []string{message.String(), "session", "7", "9"}},
		{&repo.FencedError{Key: repo.PlanLease(message), Latest: 9}, []error{repo.ErrConflict}, []string{message.String(), "plan", "needs a fence", "9"}},
		{
			&repo.LeaseLostError{Key: repo.PlanLease(message), Owner: "worker", Fence: 7, Err: repo.ErrUnavailable},
			[]error{repo.ErrConflict},
			[]string{message.String(), `"worker"`, "fence 7", "unavailable"},
		},
		{&repo.NotFoundError{Kind: "stream", Name: "a\nb"}, []error{repo.ErrNotFound}, []string{`"a\nb" not found`}},
		{&repo.NotFoundError{Kind: "stream", Name: "a\nb", Gone: true}, []error{repo.ErrNotFound, repo.ErrGone}, []string{`"a\nb"`, "expired"}},
		{&repo.StreamFailedError{Key: "a\nb", Reason: "secret"}, []error{repo.ErrStreamFailed}, []string{`"a\nb" failed`}},
		{&repo.FencedError{Key: repo.LeaseKey{Kind: "stream", Name: "a\nb"}, Fence: 7}, []error{repo.ErrConflict}, []string{`"a\nb"`, "fence 7"}},
		{&repo.RefusedError{Kind: "stream", Name: "a\nb", Reason: "is " + string(repo.StreamFailed)}, []error{repo.ErrConflict}, []string{`"a\nb"`, "failed"}},
		{&repo.SequenceConflictError{Kind: "stream", Name: "a\nb", Expected: 3, Next: 5}, []error{repo.ErrConflict}, []string{`"a\nb"`, "3", "5"}},
		{&repo.LimitExceededError{Kind: "keys or bytes of state", Limit: limits.MaxStateReadKeys}, []error{repo.ErrLimit}, []string{"10000 keys"}},
		{
			&repo.LimitExceededError{Kind: "state", Scope: repo.Scope{Name: "a\nb"}, Name: "k\n", Limit: 7, Current: 5, Requested: 3},
			[]error{repo.ErrLimit},
			[]string{`"a\nb": key "k\n": 5 +3 would pass the bound of 7`},
		},
		{
			&repo.LimitExceededError{Kind: "state", Scope: repo.Scope{SessionID: session}, Name: "k", Limit: -7, Current: -5, Requested: -3},
			[]error{repo.ErrLimit},
			[]string{session.String(), `key "k": -5 -3 would pass the bound of -7`},
		},
		{&repo.LimitExceededError{Kind: "depth", ID: message, Limit: 10}, []error{repo.ErrLimit}, []string{message.String(), "depth", "10"}},
	}
}

type typedError struct {
	err   error
	is    []error
	holds []string
}

// Each typed error matches its sentinel and no other, wrapped, too, and its text
// contains its fields.
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
				expected = expected || want == sentinel //nolint:errorlint // compares identity
			}
			if errors.Is(wrapped, sentinel) != expected {
				t.Errorf("%T is %v: %v", test.err, sentinel, !expected)
			}
		}
		for _, part := range test.holds {
			if !strings.Contains(test.err.Error(), part) {
				t.Errorf("%q does not contain %q", test.err, part)
			}
		}
	}
}

func TestTypedErrorsKeepTheirFacts(t *testing.T) {
	var sequence *repo.SequenceConflictError
	if !errors.As(fmt.Errorf("x: %w", &repo.SequenceConflictError{Expected: 1, Next: 2}), &sequence) || sequence.Next != 2 {
		t.Error("SequenceConflictError")
	}
	var budget *repo.LimitExceededError
	if !errors.As(fmt.Errorf("x: %w", &repo.LimitExceededError{Limit: 1, Requested: 2}), &budget) || budget.Requested != 2 {
		t.Error("LimitExceededError")
	}
	var missing *repo.NotFoundError
	if !errors.As(fmt.Errorf("x: %w", &repo.NotFoundError{Kind: "message"}), &missing) || missing.Kind != "message" {
		t.Error("NotFoundError")
	}
	var session *repo.ExistsError
	if !errors.As(error(&repo.ImportError{Err: &repo.ExistsError{Kind: "session", Field: "id"}}), &session) || session.Field != "id" {
		t.Error("ExistsError within ImportError")
	}
	for i, a := range sentinels {
		for j, b := range sentinels {
			if i != j && errors.Is(a, b) {
				t.Errorf("%v is %v", a, b)
			}
		}
	}
}

// declared returns the package's sentinels, by their texts, and its error types, from
// its source.
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
					if star, ok := d.Recv.List[0].Type.(*ast.StarExpr); ok && star.X.(*ast.Ident).IsExported() {
						types = append(types, star.X.(*ast.Ident).Name)
					}
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					value, ok := spec.(*ast.ValueSpec)
					// ErrStopped is no error of an operation, but the cause of the end of a context.
					if !ok || !strings.HasPrefix(value.Names[0].Name, "Err") || value.Names[0].Name == "ErrStopped" {
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

// The list of sentinels is complete, and each error type is in the tests.
// Guarantee: Faults: An error matches exactly one sentinel.
func TestSentinelsAreAll(t *testing.T) {
	texts, types := declared(t)
	if len(texts) < 12 || len(types) < 13 {
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
	// Each caller gets a copy.
	repo.Sentinels()[0] = nil
	if repo.Sentinels()[0] == nil {
		t.Error("a caller changes the list")
	}
}
