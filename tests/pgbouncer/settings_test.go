package pgbouncer

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// PgBouncer accepts the pinned settings, and keeps them for each client although
// clients share the server's sessions: here with clients that have other settings, on
// a database that has others, too.
func TestSettingsArePinned(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal("the URL does not parse")
	}
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range []string{"client_encoding = 'LATIN1'", "DateStyle = 'SQL, DMY'", "TimeZone = 'Asia/Kolkata'", "standard_conforming_strings = off"} {
		pgtest.Exec(t, conn, "ALTER DATABASE "+strings.TrimPrefix(u.Path, "/")+" SET "+setting)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	bounced := pgtest.NewBouncer(t, databaseURL, "transaction", 2)

	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for _, timeZone := range []string{"Europe/Berlin", "America/New_York"} {
		config, err := pgx.ParseConfig(withMode(bounced, documentedMode))
		if err != nil {
			t.Fatal("the URL does not parse")
		}
		config.RuntimeParams["client_encoding"], config.RuntimeParams["TimeZone"], config.RuntimeParams["DateStyle"] = "LATIN1", timeZone, "German"
		other, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		others.Go(func() {
			defer func() { _ = other.Close(context.WithoutCancel(ctx)) }()
			for ctx.Err() == nil {
				var now string
				if err := other.QueryRow(ctx, "SELECT now()::text").Scan(&now); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer others.Wait()
	defer stop()

	for i, mode := range modes() {
		store := pgtest.OpenStore(t, withMode(bounced, mode), agentstore.Options{MaxConns: 16})
		id := pgtest.NewSession(t, store)
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() {
				for range 25 {
					if _, err := store.Sessions().Append(t.Context(), id, message(`é\`)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		writers.Wait()
		for message, err := range store.Sessions().Messages(t.Context(), id, 0) {
			if err != nil || message.Content != `é\` {
				t.Fatalf("%s: read %q, %v", mode, message.Content, err)
			}
		}
		var stored, differs int
		err := store.Pool().QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE convert_to(content, 'UTF8') <> '\xc3a95c') FROM messages`).Scan(&stored, &differs)
		if err != nil || stored != 100*(i+1) || differs != 0 {
			t.Errorf("%s: %d messages, %d of them changed, %v", mode, stored, differs, err)
		}
	}
}
