package faults

import (
	"syscall"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
)

// The server or its processes crash. Acknowledged messages are on disk; ids tell
// whether those under way were stored.
var crashes = []fault{
	{name: "SIGKILL of the postmaster", times: 20, short: 1, strike: func(t *testing.T, s *scene) func() {
		s.cluster.Stop(t, syscall.SIGKILL)
		return func() { s.cluster.Start(t) }
	}},
	{name: "immediate shutdown", times: 20, short: 1, strike: func(t *testing.T, s *scene) func() {
		s.cluster.Stop(t, syscall.SIGQUIT)
		return func() { s.cluster.Start(t) }
	}},
	// The postmaster then ends all other backends, too, and recovers by itself.
	{name: "SIGKILL of a backend", times: 20, short: 1, strike: func(t *testing.T, s *scene) func() {
		conn := connect(t, s.url)
		defer disconnect(conn)
		var pid int
		if err := conn.QueryRow(t.Context(), `SELECT pid FROM pg_stat_activity
			WHERE application_name = 'agentstore' ORDER BY random() LIMIT 1`).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		await.For(t, "the postmaster ends the others", func() bool {
			_, err := conn.Exec(t.Context(), "SELECT")
			return err != nil
		})
		return nil
	}},
	{name: "pg_terminate_backend", times: 20, short: 1, strike: func(t *testing.T, s *scene) func() {
		if terminate(t, s.url) == 0 {
			t.Fatal("the store has no backend")
		}
		return nil
	}},
	{name: "SIGKILL of the writing client", times: 20, short: 1, unnoticed: true, strike: killWriter},
}

// terminate ends the store's backends and returns how many there were.
func terminate(t *testing.T, databaseURL string) (count int) {
	t.Helper()
	conn := connect(t, databaseURL)
	defer disconnect(conn)
	if err := conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE application_name = 'agentstore'`).Scan(&count); err != nil {
		t.Fatal(err)
	}
	return count
}
