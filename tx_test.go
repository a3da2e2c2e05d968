package agentstore

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/repo"
)

// In memory a test's own function takes the effect's place. What is no transaction is refused.
func TestWithTxInMemory(t *testing.T) {
	store, err := Open(t.Context(), "memory://effects", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	effect := func(pgx.Tx) error { t.Error("the effect was made without a database"); return nil }
	made, failed := 0, errors.New("failed")
	for _, want := range []error{nil, failed} {
		err := store.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
			if err := WithTx(tx, effect, nil); err != nil {
				t.Errorf("without a function: %v", err)
			}
			wrapped := struct{ repo.Repositories }{tx}
			for _, other := range []repo.Repositories{wrapped, store, store.Store, nil} {
				if err := WithTx(other, effect, func() error { made++; return nil }); !errors.Is(err, repo.ErrInvalid) {
					t.Errorf("%T gave %v", other, err)
				}
			}
			return WithTx(tx, effect, func() error { made++; return want })
		})
		if !errors.Is(err, want) {
			t.Errorf("InTx returned %v, want %v", err, want)
		}
	}
	if made != 2 {
		t.Errorf("the test's function was called %d times", made)
	}
}
