package bugreports

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// findings counts what is wrong with the stored messages.
type findings struct {
	stored     int
	lost       int // acknowledged, but not stored
	repeated   int // stored more than once
	duplicates int // sequences of more than one message of a session
	gaps       int // missing sequences below the highest
}

// inspect compares a table with what was acknowledged. It reads the table directly,
// not through the library.
func inspect(t *testing.T, databaseURL, table string, all []acknowledged) findings {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	rows, err := conn.Query(t.Context(), "SELECT session_id, sequence, id FROM "+pgx.Identifier{table}.Sanitize())
	if err != nil {
		t.Fatal(err)
	}
	var f findings
	messages := map[acknowledged]int{}
	sequences := map[repo.ID]map[int64]int{}
	highest := map[repo.ID]int64{}
	for rows.Next() {
		var session, message pgtype.UUID
		var sequence int64
		if err := rows.Scan(&session, &sequence, &message); err != nil {
			t.Fatal(err)
		}
		f.stored++
		messages[acknowledged{session.Bytes, message.Bytes}]++
		if sequences[session.Bytes] == nil {
			sequences[session.Bytes] = map[int64]int{}
		}
		sequences[session.Bytes][sequence]++
		highest[session.Bytes] = max(highest[session.Bytes], sequence)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		switch count := messages[a]; {
		case count == 0:
			f.lost++
		case count > 1:
			f.repeated++
		}
	}
	for session, used := range sequences {
		for _, count := range used {
			f.duplicates += count - 1
		}
		f.gaps += int(highest[session]) + 1 - len(used)
	}
	return f
}
