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

// The isolation that the server has by default changes nothing.
func TestDefaultIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"serializable", "repeatable read"}[:pgtest.Choose(2, 1)] {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			store := pgtest.NewStore(t, agentstore.Options{})
			name := store.Pool().Config().ConnConfig.Database
			if _, err := store.Pool().Exec(t.Context(), `ALTER DATABASE `+pgx.Identifier{name}.Sanitize()+` SET default_transaction_isolation = '`+level+`'`); err != nil {
				t.Fatal(err)
			}
			store.Pool().Reset()
			var is string
			if err := store.Pool().QueryRow(t.Context(), "SHOW default_transaction_isolation").Scan(&is); err != nil || is != level {
				t.Fatal(is, err)
			}
			approvaltest.Run(t, store, nil)
		})
	}
}

// A transaction of the caller's that asks again ends, at whatever level, if there was a decision since it began.
func TestBoundAsk(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	approvals, err := approval.New(store, "", approval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // it would go on for ever
		ref := asked(t, store, approvals)
		tx, err := store.Pool().BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
		if err != nil {
			t.Fatal(err)
		}
		bound := postgres.Bind(tx)
		if _, err := bound.Sessions().Get(ctx, ref.SessionID); err != nil {
			t.Fatal(err)
		}
		if _, err := approvals.Decide(ctx, "bob", approval.Answer{Ref: ref, Verdict: approval.Deny}); err != nil {
			t.Fatal(err)
		}
		request := approval.NewRequest{Ref: ref, Act: pay, By: "anna", Deciders: []string{"bob"}, Until: time.Now().Add(time.Hour)}
		again, err := approvals.Ask(ctx, bound, request)
		t.Log(level, again.Status, err)
		if (err != nil || again.Status != approval.Denied) && !errors.Is(err, repo.ErrContention) {
			t.Errorf("%s: %s, %v", level, again.Status, err)
		}
		_ = tx.Rollback(t.Context())
		cancel()
	}
}
