//go:build !race

package postgres

import (
	"testing"

	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestAmounts(t *testing.T) {
	t.Parallel()
	repotest.RunAmounts(t, opener(t, pgtest.NewDatabase(t)))
}
