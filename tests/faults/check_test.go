package faults

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

// findings counts what is wrong with the stored messages.
type findings struct {
	lost       int // acknowledged, but not stored
	moved      int // stored at another sequence than the acknowledged one
	duplicated int // ids stored twice, or sequences of two messages
	gaps       int // missing sequences below the highest
	uninvited  int // stored, but neither acknowledged nor in doubt
	counters   int // sessions whose counter differs from their number of messages
}

func (f findings) add(g findings) findings {
	return findings{
		f.lost + g.lost, f.moved + g.moved, f.duplicated + g.duplicated,
		f.gaps + g.gaps, f.uninvited + g.uninvited, f.counters + g.counters,
	}
}

// stored is a row of the table.
type stored struct {
	session, message repo.ID
	sequence         int64
}

// compare compares the stored rows with the acknowledged messages. Messages in doubt
// may be stored or not.
func compare(rows []stored, acknowledged []acknowledgement, inDoubt map[repo.ID]bool) findings {
	var f findings
	at := map[repo.ID]stored{}
	taken := map[repo.ID]map[int64]bool{}
	highest := map[repo.ID]int64{}
	for _, row := range rows {
		if _, again := at[row.message]; again {
			f.duplicated++
		}
		at[row.message] = row
		if taken[row.session] == nil {
			taken[row.session] = map[int64]bool{}
		}
		if taken[row.session][row.sequence] {
			f.duplicated++
		}
		taken[row.session][row.sequence] = true
		highest[row.session] = max(highest[row.session], row.sequence)
	}
	for session, sequences := range taken {
		f.gaps += int(highest[session]) + 1 - len(sequences)
	}
	invited := map[repo.ID]bool{}
	for _, a := range acknowledged {
		invited[a.message] = true
		row, there := at[a.message]
		switch {
		case !there || row.session != a.session:
			f.lost++
		case row.sequence != a.sequence:
			f.moved++
		}
	}
	for message := range at {
		if !invited[message] && !inDoubt[message] {
			f.uninvited++
		}
	}
	return f
}

// inspect reads the stored messages directly, not through the library.
func inspect(t *testing.T, databaseURL string, sessions []repo.ID, acknowledged []acknowledgement, inDoubt map[repo.ID]bool) findings {
	t.Helper()
	conn := connect(t, databaseURL)
	defer disconnect(conn)
	keys := make([]pgtype.UUID, len(sessions))
	for i, id := range sessions {
		keys[i] = pgtype.UUID{Bytes: id, Valid: true}
	}
	rows, err := conn.Query(t.Context(), "SELECT session_id, id, sequence FROM messages WHERE session_id = ANY ($1)", keys)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (stored, error) {
		var session, message pgtype.UUID
		var s stored
		err := row.Scan(&session, &message, &s.sequence)
		s.session, s.message = session.Bytes, message.Bytes
		return s, err
	})
	if err != nil {
		t.Fatal(err)
	}
	f := compare(all, acknowledged, inDoubt)
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM session_counters c WHERE session_id = ANY ($1)
		AND next_sequence <> (SELECT count(*) FROM messages m WHERE m.session_id = c.session_id)`, keys).Scan(&f.counters); err != nil {
		t.Fatal(err)
	}
	return f
}

// checkNothingLeft waits until no connection is in use, no goroutine is at work, and the server has no
// lock and no transaction of ours.
func checkNothingLeft(t *testing.T, databaseURL string, pool *pgxpool.Pool) {
	t.Helper()
	awaitNone(t, "nothing is left", func() string { return whatIsLeft(t, databaseURL, pool) })
}

// awaitNone waits until nothing is found.
func awaitNone(t *testing.T, what string, find func() string) {
	t.Helper()
	var found string
	defer func() {
		if found != "" {
			t.Log(found)
		}
	}()
	await.For(t, what, func() bool { found = find(); return found == "" })
}

func whatIsLeft(t *testing.T, databaseURL string, pool *pgxpool.Pool) string {
	t.Helper()
	if acquired := pool.Stat().AcquiredConns(); acquired > 0 {
		return fmt.Sprintf("%d connections in use, and at work\n%s", acquired, strings.Join(atWork(), "\n\n"))
	}
	if stacks := atWork(); len(stacks) > 0 {
		return fmt.Sprintf("%d goroutines, one of them\n%s", len(stacks), stacks[0])
	}
	conn := connect(t, databaseURL)
	defer disconnect(conn)
	var locks, transactions, waits int
	if err := conn.QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'),
		(SELECT count(*) FROM pg_locks WHERE NOT granted),
		(SELECT count(*) FROM pg_stat_activity WHERE application_name = 'agentstore' AND state <> 'idle')`,
	).Scan(&locks, &waits, &transactions); err != nil {
		t.Fatal(err)
	}
	if locks+transactions+waits > 0 {
		return fmt.Sprintf("%d advisory locks, %d waits for locks, %d transactions", locks, waits, transactions)
	}
	return ""
}

// atWork returns the stacks of goroutines that are in the library or the driver. It
// leaves out the pool's own goroutine, and those that the driver leaves in a read of
// an idle connection after a slow write: checkGoroutines checks that both end with
// the pool.
func atWork() []string {
	var found []string
	for _, stack := range goroutines() {
		if (strings.Contains(stack, "agentstore/repo/postgres.") || strings.Contains(stack, "jackc/pgx/v5")) &&
			!strings.Contains(stack, "backgroundHealthCheck") && !strings.Contains(stack, "(*BGReader).bgRead") {
			found = append(found, stack)
		}
	}
	return found
}

// goroutines returns the stacks of all goroutines except the proxy's.
func goroutines() []string {
	buffer := make([]byte, 8<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	var stacks []string
	for stack := range strings.SplitSeq(string(buffer), "\n\n") {
		if !strings.Contains(stack, "Shopify/toxiproxy") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// checkGoroutines waits until no more goroutines run than before.
func checkGoroutines(t *testing.T, before int) {
	t.Helper()
	awaitNone(t, "goroutines end", func() string {
		if stacks := goroutines(); len(stacks) > before {
			return fmt.Sprintf("%d goroutines, %d before:\n%s", len(stacks), before, strings.Join(stacks, "\n\n"))
		}
		return ""
	})
}

// connect connects to a server that may be starting.
func connect(t *testing.T, databaseURL string) (conn *pgx.Conn) {
	t.Helper()
	awaitNone(t, "the server answers", func() string {
		var err error
		if conn, err = pgx.Connect(t.Context(), databaseURL); err != nil {
			return err.Error()
		}
		return ""
	})
	return conn
}

func disconnect(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// makeAction makes an action for many plans.
func makeAction(t *testing.T, store repo.Store, name string, attempts int) {
	t.Helper()
	definition := repo.ActionDefinition{Reusable: true, MaxAttempts: attempts}
	if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: name, ActionDefinition: definition}); err != nil {
		t.Fatal(err)
	}
}

func execute(t *testing.T, databaseURL, sql string, arguments ...any) {
	t.Helper()
	conn := connect(t, databaseURL)
	defer disconnect(conn)
	if _, err := conn.Exec(t.Context(), sql, arguments...); err != nil {
		t.Fatal(err)
	}
}

// The comparison finds each kind of error.
func TestCompareFinds(t *testing.T) {
	session := repo.NewID()
	ids := []repo.ID{repo.NewID(), repo.NewID(), repo.NewID()}
	row := func(message, sequence int) stored { return stored{session, ids[message], int64(sequence)} }
	acknowledged := []acknowledgement{{session, ids[0], 0}, {session, ids[1], 1}}
	for _, c := range []struct {
		name string
		rows []stored
		want findings
	}{
		{"as it should be", []stored{row(0, 0), row(1, 1)}, findings{}},
		{"lost", []stored{row(0, 0)}, findings{lost: 1}},
		{"moved", []stored{row(0, 1), row(1, 0)}, findings{moved: 2}},
		{"sequence twice", []stored{row(0, 0), row(1, 0)}, findings{moved: 1, duplicated: 1}},
		{"message twice", []stored{row(0, 0), row(1, 1), row(1, 2)}, findings{moved: 1, duplicated: 1}},
		{"gap", []stored{row(0, 0), row(1, 2)}, findings{moved: 1, gaps: 1}},
		{"uninvited", []stored{row(0, 0), row(1, 1), row(2, 2)}, findings{uninvited: 1}},
	} {
		if got := compare(c.rows, acknowledged, nil); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if got := compare([]stored{row(0, 0), row(1, 1), row(2, 2)}, acknowledged, map[repo.ID]bool{ids[2]: true}); got != (findings{}) {
		t.Errorf("in doubt: %+v", got)
	}
}
