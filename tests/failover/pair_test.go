package failover

import (
	"fmt"
	"testing"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// pair is a primary with a migrated database, and its streaming replica.
type pair struct {
	primary, replica *pgtest.Cluster
	// url names both, and requests the one that accepts writes.
	url string
}

// newPair starts both. A synchronous primary answers a commit when the replica has it
// on disk.
func newPair(t *testing.T, synchronous bool) pair {
	t.Helper()
	primary := pgtest.NewCluster(t)
	var settings []string
	if synchronous {
		settings = append(settings, "synchronous_standby_names=replica", "synchronous_commit=on")
	}
	primary.Start(t, settings...)
	replica := primary.Replica(t)
	replica.Start(t)
	if err := schema.Up(t.Context(), primary.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	return pair{primary, replica, fmt.Sprintf(
		"postgres://postgres:%s@127.0.0.1:%s,127.0.0.1:%s/postgres?sslmode=disable&target_session_attrs=read-write&connect_timeout=60",
		primary.Password, primary.Port, replica.Port)}
}
