package migrate

import (
	"testing"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func open(t *testing.T, databaseURL string, options schema.Options) *schema.Migrator {
	t.Helper()
	migrator, err := schema.Open(t.Context(), databaseURL, options)
	if err != nil {
		t.Fatal(err)
	}
	return migrator
}

// empty and migrated return a new database.
func empty(t *testing.T) string    { return pgtest.NewEmptyDatabase(t) }
func migrated(t *testing.T) string { return pgtest.NewDatabase(t) }

// lockID is the key of the migration lock, which libraries of all versions share.
const lockID int64 = 0x6167656e_7473746f

// heldLocks returns the number of sessions that hold the migration lock of this
// database.
const heldLocks = `
SELECT count(*) FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32 | objid::bigint) = $1`

const insertSession = `INSERT INTO sessions (id) VALUES (gen_random_uuid())`
