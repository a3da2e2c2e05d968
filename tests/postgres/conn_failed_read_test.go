package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// failing makes each statement that contains a text fail before it reaches the
// server.
type failing struct{ text string }

func (f failing) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(data.SQL, f.text) {
		return ctx
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return ended
}

func (failing) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (f failing) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, query := range data.Batch.QueuedQueries {
		if strings.Contains(query.SQL, f.text) {
			return f.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: query.SQL})
		}
	}
	return ctx
}

func (failing) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (failing) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// An operation that wrote, or finds its data written, and cannot read it, must not
// report that nothing was written: either it reads nothing after a write, or the
// outcome is unknown. When each operation is called the second time, its reads fail
// before they reach the server.
func TestReadFailsAfterWrite(t *testing.T) {
	t.Parallel()
	type operation func(ctx context.Context, store repo.Repositories, id repo.ID) error
	create := func(ctx context.Context, store repo.Repositories, id repo.ID) error {
		_, err := store.Sessions().Create(ctx, repo.NewSession{ID: id})
		return err
	}
	action := func(ctx context.Context, store repo.Repositories, id repo.ID) error {
		_, err := store.Actions().Create(ctx, repo.NewAction{Name: "a", ActionDefinition: repo.ActionDefinition{Reusable: true}})
		return err
	}
	use := func(ctx context.Context, store repo.Repositories, id repo.ID) error {
		_, err := store.Plans().Use(ctx, "a", repo.UseAction{Key: id.String()})
		return err
	}
	plan := func(ctx context.Context, store repo.Repositories) repo.ID {
		page, err := store.Plans().List(ctx, repo.PlanFilter{}, repo.Page{})
		if err != nil || len(page.Items) != 1 {
			t.Errorf("%d plans, %v", len(page.Items), err)
			return repo.ID{}
		}
		return page.Items[0].ID
	}
	start := func(ctx context.Context, store repo.Repositories, _ repo.ID) error {
		_, err := store.Plans().Transition(ctx, plan(ctx, store), repo.TransitionStart, repo.Cause{})
		return err
	}
	both := []error{repo.ErrUnknownOutcome, nil} // one statement suffices
	for name, test := range map[string]struct {
		query  string
		before []operation
		write  operation
		want   []error
	}{
		"create again": {"SessionGet", []operation{create}, create, both},
		"append again": {"MessageListByIDs", []operation{create}, func(ctx context.Context, store repo.Repositories, id repo.ID) error {
			message := user("once")
			message.ID = id
			_, err := store.Sessions().Append(ctx, id, message)
			return err
		}, both},
		"update": {"SessionGet", []operation{create}, func(ctx context.Context, store repo.Repositories, id repo.ID) error {
			actor := "b"
			_, err := store.Sessions().Update(ctx, id, repo.SessionUpdate{Actor: &actor})
			return err
		}, both},
		"create an action again": {"ActionGet", []operation{action}, action, both},
		"archive": {"ActionGet", []operation{action}, func(ctx context.Context, store repo.Repositories, _ repo.ID) error {
			_, err := store.Actions().Archive(ctx, "a")
			return err
		}, both},
		"use again": {"PlanGetByKey", []operation{action}, use, both},
		"use again, and the link is broken": {"PlanLink", []operation{action, create}, func(ctx context.Context, store repo.Repositories, id repo.ID) error {
			_, err := store.Plans().Use(ctx, "a", repo.UseAction{Key: "k", SessionID: id})
			return err
		}, both},
		"progress": {"PlanGet", []operation{action, use, start}, func(ctx context.Context, store repo.Repositories, id repo.ID) error {
			step := int64(3)
			_, err := store.Plans().Progress(ctx, plan(ctx, store), repo.Progress{CompletedStep: &step})
			return err
		}, both},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL, id := pgtest.NewDatabase(t), repo.NewID()
			first := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
			for _, operation := range append(test.before, test.write) {
				if err := operation(t.Context(), first, id); err != nil {
					t.Fatal(err)
				}
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			again := pgtest.OpenStore(t, databaseURL, agentstore.Options{Tracer: failing{"name: " + test.query + " "}})
			err := test.write(t.Context(), again, id)
			if !slices.ContainsFunc(test.want, func(want error) bool { return errors.Is(err, want) }) {
				t.Fatalf("%v, want one of %v", err, test.want)
			}
			if err != nil && (errors.Is(err, repo.ErrUnavailable) || errors.Is(err, repo.ErrNotFound)) {
				t.Errorf("%v also says that nothing was written", err)
			}
		})
	}
}

// If the server goes away while a store is opened, the error is ErrUnavailable.
func TestOpenInterrupted(t *testing.T) {
	t.Parallel()
	_, err := agentstore.Open(t.Context(), pgtest.NewDatabase(t), agentstore.Options{Tracer: failing{"to_regclass"}})
	if !errors.Is(err, repo.ErrUnavailable) {
		t.Fatalf("%v, want %v", err, repo.ErrUnavailable)
	}
}
