package grants

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The grants apply to the tables of the given schema.
func TestGrantsInASchema(t *testing.T) {
	t.Parallel()
	const name = `Agent's "Store"`
	owner := pgtest.NewEmptyDatabase(t)
	pgtest.OpenStore(t, owner, agentstore.Options{Schema: name, Migrate: true})
	g := newGrantedOn(t, owner, "--schema", name)
	application := pgtest.OpenStore(t, g.application, agentstore.Options{Schema: name})
	id := pgtest.NewSession(t, application)
	hello := repo.NewMessage{Role: repo.RoleUser, Content: "hello"}
	if _, err := application.Sessions().Append(t.Context(), id, hello); err != nil {
		t.Error(err)
	}
	reader := pgtest.OpenStore(t, g.reader, agentstore.Options{Schema: name})
	if _, err := reader.Sessions().Get(t.Context(), id); err != nil {
		t.Error(err)
	}
	if _, err := reader.Sessions().Append(t.Context(), id, hello); !errors.Is(err, repo.ErrPermission) {
		t.Errorf("the reader appends: %v", err)
	}
}
