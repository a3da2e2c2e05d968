package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A turn has an id that was stored, with other changes, after the caller's transaction
// began: the transaction finds it, or has to be run again.
func TestTurnIDStoredSinceSnapshot(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(fmt.Sprint(level), func(t *testing.T) {
			t.Parallel()
			id, turnID := pgtest.NewSession(t, store), "turn"
			tx, err := store.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }()
			pgtest.Exec(t, tx, "SELECT count(*) FROM sessions") // the snapshot
			first := repo.Turn{ID: turnID, State: []repo.StateChange{plusOne("first/"+id.String(), "n")}}
			if _, err := store.Sessions().AppendTurn(t.Context(), inSession(id, first)); err != nil {
				t.Fatal(err)
			}
			second := repo.Turn{ID: turnID, State: []repo.StateChange{plusOne("second/"+id.String(), "n")}}
			_, err = postgres.Bind(tx).Sessions().AppendTurn(t.Context(), inSession(id, second))
			want := repo.ErrContention
			if level == pgx.ReadCommitted {
				want = repo.ErrConflict
			}
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
}
