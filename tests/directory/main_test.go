// Package directory tests packages directory and share with a server.
package directory

import (
	"os"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/directory/directorytest"
	"github.com/seed-df90f812/agentstore/share/sharetest"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// Each test has a namespace of its own.
//
// Guarantee: Sessions: A walk of a directory misses no session, or says so.
func TestDirectory(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	directorytest.Run(t, func(t *testing.T) directorytest.Store {
		namespace := t.Name()
		return directorytest.Store{Store: store.In(namespace), Elapse: func(d time.Duration) {
			for _, update := range []string{
				"sessions SET updated_at = updated_at - $2::interval, created_at = created_at - $2::interval WHERE namespace = $1",
				"session_activity SET active_at = active_at - $2::interval WHERE namespace = $1",
				"session_counters c SET updated_at = c.updated_at - $2::interval FROM sessions s WHERE s.id = c.session_id AND s.namespace = $1",
			} {
				if _, err := store.Pool().Exec(t.Context(), "UPDATE "+update, namespace, d); err != nil {
					t.Error(err)
				}
			}
		}}
	})
}

// Guarantee: Sessions: A share link shows nothing later than its message.
func TestShare(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	t.Run("views", func(t *testing.T) { sharetest.Run(t, store) })
}
