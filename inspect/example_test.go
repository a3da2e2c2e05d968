package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/inspect"
	"github.com/seed-df90f812/agentstore/live"
)

// logins are a service's own.
type logins interface {
	Employee(r *http.Request) (name string, support bool, err error)
}

func newInspector(store *agentstore.Store, logins logins) (*inspect.Inspector, error) {
	return inspect.Handler(store, inspect.Options{
		Prefix: "/inspect",
		Authorize: func(r *http.Request) (inspect.Access, error) {
			name, support, err := logins.Employee(r)
			if err != nil {
				return inspect.Access{}, &live.StatusError{Status: http.StatusUnauthorized, Err: err}
			}
			return inspect.Access{Viewer: name, AllNamespaces: true, Contents: support}, nil
		},
		Health: func(ctx context.Context) (map[string]any, error) {
			health, err := store.Health(ctx)
			return map[string]any{"Database": health, "Process": store.Stats()}, err
		},
	})
}

// nobody has no employees.
type nobody struct{}

func (nobody) Employee(*http.Request) (name string, support bool, err error) {
	return "", false, errors.New("who are you?")
}

// The pages are below a path of the service's own server. A viewer that is not let in sees nothing.
func ExampleHandler() {
	store, err := agentstore.Open(context.Background(), "memory://inspect", agentstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	pages, err := newInspector(store, nobody{})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/inspect/", pages)

	answer := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/inspect/", nil))
	fmt.Println(answer.Code)
	// Output: 401
}
