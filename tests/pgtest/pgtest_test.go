package pgtest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// Without any way to get a server, the error names them all. The test changes the
// environment, so it is not parallel.
func TestNoServer(t *testing.T) {
	t.Setenv(urlEnv, "")
	t.Setenv(kindEnv, "")
	t.Setenv(binariesEnv, "")
	t.Setenv("PATH", "")
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
	before := debianDir
	debianDir = t.TempDir()
	defer func() { debianDir = before }()
	server, err := Start(t.Context(), Options{})
	if err == nil {
		server.Stop()
		t.Fatalf("started a server: %s", server.Description)
	}
	for _, way := range []string{urlEnv, "start Docker", "make image", "install PostgreSQL's server", "url:", "container:", "local:"} {
		if !strings.Contains(err.Error(), way) {
			t.Errorf("the error does not name %q: %v", way, err)
		}
	}
}

// Twenty tests at once have databases of their own, each migrated, and dropped
// afterwards.
func TestDatabasesAreIndependent(t *testing.T) {
	t.Parallel()
	urls := make(chan string, 20)
	t.Run("databases", func(t *testing.T) {
		for i := range cap(urls) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				databaseURL := NewDatabase(t)
				urls <- databaseURL
				conn := connect(t, databaseURL)
				var sessions int
				if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM sessions").Scan(&sessions); err != nil {
					t.Fatalf("the database is not migrated: %v", err)
				}
				if _, err := conn.Exec(t.Context(), "CREATE TABLE mine (number int)"); err != nil {
					t.Errorf("the database is shared: %v", err)
				}
			})
		}
	})
	close(urls)
	conn := connect(t, Shared(t).URL)
	for databaseURL := range urls {
		config, err := pgx.ParseConfig(databaseURL)
		if err != nil {
			t.Fatal(err)
		}
		var left bool
		if err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", config.Database).Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left {
			t.Errorf("the database %s was not dropped", config.Database)
		}
	}
}

func connect(t *testing.T, databaseURL string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
