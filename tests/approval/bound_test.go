package approval

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/approval/approvaltest"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// One connection is enough.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	approvaltest.Run(t, pgtest.NewStore(t, agentstore.Options{MaxConns: 1}), nil)
}

// asked asks bob, and returns the name of the request.
func asked(t *testing.T, store repo.Store, approvals *approval.Approvals) approval.Ref {
	t.Helper()
	ref := approval.Ref{SessionID: pgtest.NewSession(t, store), ID: "pay"}
	if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		_, err := approvals.Ask(ctx, tx, approval.NewRequest{Ref: ref, Act: pay, By: "anna", Deciders: []string{"bob"}, Until: time.Now().Add(time.Hour)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return ref
}

// A transaction of the caller's, at whatever level, does not use what others have used or denied since it began.
func TestBound(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	approvals, err := approval.New(store, "", approval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		for _, verdict := range []approval.Verdict{approval.Approve, approval.Deny} {
			ref := asked(t, store, approvals)
			answer := approval.Answer{Ref: ref, Verdict: verdict}
			if verdict == approval.Approve { // before; the denial comes while the transaction is open
				if _, err := approvals.Decide(t.Context(), "bob", answer); err != nil {
					t.Fatal(err)
				}
			}
			tx, err := store.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			bound := postgres.Bind(tx)
			if _, err := bound.Sessions().Get(t.Context(), ref.SessionID); err != nil {
				t.Fatal(err)
			}
			want := approval.Used
			if verdict == approval.Approve {
				err = store.InTx(t.Context(), approvals.Permit(ref, pay))
			} else {
				want = approval.Denied
				_, err = approvals.Decide(t.Context(), "bob", answer)
			}
			if err != nil {
				t.Fatal(err)
			}
			err = approvals.Use(t.Context(), bound, ref, pay)
			var refused *approval.StatusError
			known := errors.As(err, &refused) && (refused.Status == want || level != pgx.ReadCommitted && refused.Status == approval.Open)
			if !known && !errors.Is(err, repo.ErrContention) {
				t.Errorf("%s, %s: %v", level, verdict, err)
			}
			_ = tx.Rollback(t.Context())
		}
	}
}

// What the calls cost, in round trips.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	trips := &pgtest.RoundTrips{}
	store := pgtest.NewStore(t, agentstore.Options{Tracer: trips})
	approvals, err := approval.New(store, "", approval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ref approval.Ref
	request := approval.NewRequest{Act: pay, By: "anna", Deciders: []string{"bob", "carl"}, Until: time.Now().Add(time.Hour)}
	for range 2 { // then the session is known to the view
		request.Ref = asked(t, store, approvals)
		request.ID = "other"
		for _, call := range []struct {
			name string
			most int
			run  func(ctx context.Context) error
		}{
			{"ask", 7, func(ctx context.Context) error {
				ref = request.Ref
				return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
					_, err := approvals.Ask(ctx, tx, request)
					return err
				})
			}},
			{"list", 5, func(ctx context.Context) error {
				_, err := approvals.List(ctx, "bob", repo.Page{Limit: 1})
				return err
			}},
			{"decide", 9, func(ctx context.Context) error {
				_, err := approvals.Decide(ctx, "bob", approval.Answer{Ref: ref, Verdict: approval.Approve})
				return err
			}},
			{"use", 9, func(ctx context.Context) error { return store.InTx(ctx, approvals.Permit(ref, pay)) }},
		} {
			sent, err := trips.Of(t.Context(), call.run)
			if err != nil || len(sent) > call.most {
				t.Errorf("%s: %d round trips, more than %d, %v: %q", call.name, len(sent), call.most, err, sent)
			}
			t.Log(call.name, len(sent))
		}
	}
}
