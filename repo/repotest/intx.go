package repotest

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// errOver rolls a transaction back at the end of a subtest.
var errOver = errors.New("the test is over")

// InTx lends the repositories of one transaction to [RunRepositories]. They are
// rolled back when the subtest ends.
func InTx(open func(t *testing.T) repo.Store) func(t *testing.T) repo.Repositories {
	return func(t *testing.T) repo.Repositories {
		t.Helper()
		store := open(t)
		lent, over, ended := make(chan repo.Repositories, 1), make(chan struct{}), make(chan error, 1)
		// The subtest's context ends before its cleanups run; the transaction's
		// must not.
		ctx := context.WithoutCancel(t.Context())
		go func() {
			ended <- store.InTx(ctx, func(_ context.Context, tx repo.Repositories) error {
				lent <- tx
				<-over
				return errOver
			})
		}()
		select {
		case tx := <-lent:
			t.Cleanup(func() {
				close(over)
				if err := <-ended; !errors.Is(err, errOver) {
					t.Errorf("the transaction ended with %v", err)
				}
			})
			return tx
		case err := <-ended:
			t.Fatalf("InTx: %v", err)
			return nil
		}
	}
}
