package postgres

import (
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/window/windowtest"
)

// Guarantee: History: One worker at a time compacts a session, and appends go on.
func TestWindow(t *testing.T) {
	t.Parallel()
	windowtest.Run(t, pgtest.NewStore(t, agentstore.Options{}))
}
