package migrate

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

var databases atomic.Int64

func emptyDatabase(t *testing.T) string {
	t.Helper()
	server := os.Getenv("AGENTSTORE_TEST_DATABASE_URL")
	admin, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("migrate_%d_%d", os.Getpid(), databases.Add(1))
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		admin.Close(context.Background())
	})
	parsed, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	parsed.Path = "/" + name
	return parsed.String()
}
