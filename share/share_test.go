package share_test

import (
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/share/sharetest"
)

func TestShare(t *testing.T) {
	t.Parallel()
	store, err := agentstore.Open(t.Context(), "memory://"+repo.NewID().String(), agentstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	sharetest.Run(t, store)
}
