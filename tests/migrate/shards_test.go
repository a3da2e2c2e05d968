package migrate

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Processes make the shards of an empty database at once. Some are killed, and one stands still for
// a second. The rest succeed, and no lock is left.
// Guarantee: Migrations: A killed migrator stops no shard.
func TestProcessesMigrateShards(t *testing.T) {
	t.Parallel()
	const shards, killed = 4, 4
	for range pgtest.Choose(20, 1) {
		databaseURL := pgtest.NewEmptyDatabase(t)
		conn := pgtest.Connect(t, databaseURL)
		var processes []*process
		for range racers {
			processes = append(processes, agentstore(t, databaseURL, "migrate", "up", "--shards", "4", "--lock-timeout", "1h"))
		}
		await.For(t, "the first has begun", func() bool {
			return pgtest.Value[bool](t, conn, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname LIKE 'agentstore%')")
		})
		for n, process := range processes[:killed+1] {
			signal := syscall.SIGKILL
			if n == killed {
				signal = syscall.SIGSTOP
			}
			time.Sleep(rand.N(50 * time.Millisecond)) // pace: the signals come at any moment of a migration
			if err := process.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second) // pace: the others go on, or wait for the one that stands still
		_ = processes[killed].Process.Signal(syscall.SIGCONT)
		for n, process := range processes {
			if code := process.exit(t); code != 0 && n >= killed {
				t.Errorf("process %d ended with %d: %s", n, code, process.stderr.String())
			}
		}
		for _, name := range schema.Shards("", shards) {
			if err := open(t, databaseURL, schema.Options{Schema: name}).Validate(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		await.For(t, "no lock is left", func() bool {
			return pgtest.Value[bool](t, conn, `SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory'
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
		})
	}
}
