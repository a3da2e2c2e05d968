package agentstore

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
)

func TestIn(t *testing.T) {
	t.Parallel()
	store, err := Open(t.Context(), "memory://views", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	// A tenant that is empty by mistake is none, not the default namespace.
	// Guarantee: Views: A view of an empty or invalid namespace refuses every operation.
	for _, namespace := range []string{"", "\x00", "\xff"} {
		_, err := store.In(namespace).Sessions().Create(t.Context(), repo.NewSession{})
		_, other := store.In(namespace).Leases().List(t.Context(), repo.LeaseFilter{}, repo.Page{})
		inTx := store.In(namespace).InTx(t.Context(), func(context.Context, repo.Repositories) error { return nil })
		for _, err := range []error{err, other, inTx} {
			if invalid, is := errors.AsType[*repo.InvalidError](err); !is || invalid.Field != "namespace" {
				t.Errorf("a view of %q gave %v", namespace, err)
			}
		}
	}
	tenant, other := store.In("tenant"), store.In("other")
	session, err := tenant.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	// A handler of a view serves its sessions alone, whatever it is told of the request.
	for _, view := range []repo.Store{tenant, other} {
		handler, err := live.New(view, live.Options{Authorize: func(*http.Request) (live.Target, error) {
			return live.Target{Session: session.ID}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // as soon as it has answered
		answer := httptest.NewRecorder()
		if view == other {
			ctx = t.Context()
		}
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		if missing := answer.Code == http.StatusNotFound; missing != (view == other) {
			t.Errorf("the handler answered %d", answer.Code)
		}
	}
	made := false
	err = tenant.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
		return WithTx(tx, func(pgx.Tx) error { return errors.New("there is no database") }, func() error { made = true; return nil })
	})
	if err != nil || !made {
		t.Errorf("WithTx in a view: %v", err)
	}
	if err := tenant.Close(); err != nil {
		t.Error(err)
	}
	if _, err := tenant.Sessions().Get(t.Context(), session.ID); err != nil {
		t.Errorf("after Close of a view: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if _, err := tenant.Sessions().Get(t.Context(), session.ID); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("after Close of the store: %v", err)
	}
}
