package postgres

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// explained collects the plans with which the server ran statements, also those of triggers and functions, as auto_explain tells them.
type explained struct {
	mu    sync.Mutex
	reads map[string]int // by relation and way
	whole map[string]string
	found int
}

func (e *explained) notice(_ *pgconn.PgConn, notice *pgconn.Notice) {
	_, document, is := strings.Cut(notice.Message, "plan:\n")
	var told struct {
		Query string `json:"Query Text"`
		Plan  plan
	}
	if !is || json.Unmarshal([]byte(document), &told) != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.found++
	told.Plan.walk(func(node plan) {
		switch {
		case node.NodeType == "Seq Scan":
			e.reads[node.Relation+" whole"]++
			e.whole[node.Relation] = told.Query
		case node.IndexName != "":
			e.reads[node.IndexName]++
		}
	})
}

// An erasure in a filled database: no statement that it sends, and none of those of its triggers, reads a large table whole. The test
// prints by which indexes they are read. TestPlans explains each statement by itself, without its arguments.
func TestErasurePlans(t *testing.T) {
	t.Parallel()
	databaseURL := newFilled(t)
	// What is left of others is no part of it.
	pgtest.Exec(t, pgtest.Connect(t, databaseURL), "DELETE FROM session_remains")
	pgtest.Exec(t, pgtest.Connect(t, databaseURL), "UPDATE streams SET expires_at = now() + interval '1 hour'")
	all := &explained{reads: map[string]int{}, whole: map[string]string{}}
	pool := pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) {
		c.ConnConfig.OnNotice = all.notice
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `LOAD 'auto_explain'; SET auto_explain.log_level = notice; SET auto_explain.log_min_duration = 0;
				SET auto_explain.log_nested_statements = on; SET auto_explain.log_format = json; SET client_min_messages = notice`, pgx.QueryExecModeSimpleProtocol)
			return err
		}
	})
	store := pgtest.OpenPool(t, pool, agentstore.Options{})
	request := erase.Request{Owner: "owner/7", Actors: []string{"actor/7"}, Scopes: []string{"scope/7"}, Key: []byte("sixteen bytes or")}
	receipt, err := erase.Subject(t.Context(), store, request)
	if err != nil || receipt.Sessions != 10 || receipt.Messages < 50 || receipt.StateKeys < 100 || receipt.Entries < 300 {
		t.Errorf("%+v, %v", receipt, err)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.found < 50 || all.reads["messages_pkey"] == 0 {
		t.Fatalf("the server told of %d plans, so this test checks little", all.found)
	}
	for _, read := range slices.Sorted(maps.Keys(all.reads)) {
		t.Logf("%4d times %s", all.reads[read], read)
	}
	// These are small in any database.
	small := []string{"actions", "agentstore_migrations", "audit_quarantine", "audit_holds", "session_holds", "session_remains"}
	conn := pgtest.Connect(t, databaseURL)
	for table, query := range all.whole {
		if !slices.Contains(small, table) && pgtest.Value[int64](t, conn, "SELECT count(*) FROM pg_class WHERE oid = to_regclass($1) AND relpages > 20", table) > 0 {
			t.Errorf("%s is read whole by\n%s", table, query)
		}
	}
}
