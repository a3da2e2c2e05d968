package postgres

import (
	"bytes"
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Whether the lives of sessions are recorded is each store's own choice, also where
// stores share a pool. It applies in transactions, too.
func TestWithoutSessionAudit(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	audited := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	quiet := pgtest.OpenStore(t, databaseURL, agentstore.Options{WithoutSessionAudit: true})
	if audited.Pool() != quiet.Pool() {
		t.Fatal("the stores have two pools")
	}
	ctx := t.Context()
	inTx := func(store repo.Store) func(func(repo.Repositories) error) error {
		return func(do func(repo.Repositories) error) error {
			return store.InTx(ctx, func(_ context.Context, tx repo.Repositories) error { return do(tx) })
		}
	}
	bound := func(options postgres.Options) func(func(repo.Repositories) error) error {
		return func(do func(repo.Repositories) error) error {
			return pgx.BeginFunc(ctx, audited.Pool(), func(tx pgx.Tx) error { return do(postgres.BindWith(tx, options)) })
		}
	}
	alone := func(r repo.Repositories) func(func(repo.Repositories) error) error {
		return func(do func(repo.Repositories) error) error { return do(r) }
	}
	for name, test := range map[string]struct {
		in   func(func(repo.Repositories) error) error
		want int64 // created, deleted, imported
	}{
		"audited": {alone(audited), 3}, "quiet": {alone(quiet), 0},
		"audited InTx": {inTx(audited), 3}, "quiet InTx": {inTx(quiet), 0},
		"audited Bind": {bound(postgres.Options{}), 3}, "quiet Bind": {bound(postgres.Options{WithoutSessionAudit: true}), 0},
	} {
		id := repo.NewID()
		err := test.in(func(r repo.Repositories) error {
			var document bytes.Buffer
			if _, err := r.Sessions().Create(ctx, repo.NewSession{ID: id}); err != nil {
				return err
			}
			if err := r.Sessions().Export(ctx, id, &document); err != nil {
				return err
			}
			if _, err := r.Sessions().Delete(ctx, id); err != nil {
				return err
			}
			_, err := r.Sessions().Import(ctx, &document, true)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		count, more, err := audited.Audit().Count(ctx, repo.AuditFilter{SessionID: id}, 0)
		if err != nil || more || count != test.want {
			t.Errorf("%s: %d entries, %v, want %d", name, count, err, test.want)
		}
		if _, err := audited.Sessions().Get(ctx, id); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
