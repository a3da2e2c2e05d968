package postgres

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
)

// A query may have parts that are left out unless they are needed: even a part that
// finds nothing costs the server time, to set up its plan. A part stands between two
// lines, may contain others, and the query is valid without it:
//
//	-- with state
//	…
//	-- end of state
//
// Each combination of parts is a separate statement.
const (
	partBegins = "-- with "
	partEnds   = "-- end of "
)

// partedQueries caches the queries with only some of their parts.
var partedQueries sync.Map // of partsOf to *filteredQuery

type partsOf struct{ sql, parts string }

// withParts returns a query with only those of its parts that are named, and the
// arguments that are left.
func withParts(sql string, args []any, parts ...string) (string, []any) {
	key := partsOf{sql, strings.Join(parts, " ")}
	found, ok := partedQueries.Load(key)
	if !ok {
		query := &filteredQuery{}
		query.renumber(onlyParts(sql, parts))
		found, _ = partedQueries.LoadOrStore(key, query)
	}
	query := found.(*filteredQuery)
	return query.sql, query.with(args)
}

func onlyParts(sql string, parts []string) string {
	var kept strings.Builder
	within := "" // the outermost part that is left out
	for line := range strings.Lines(sql) {
		text := strings.TrimSpace(line)
		name, begins := strings.CutPrefix(text, partBegins)
		ended, ends := strings.CutPrefix(text, partEnds)
		switch {
		case begins && within == "" && !slices.Contains(parts, name):
			within = name
		case ends && ended == within:
			within = ""
		case !begins && !ends && within == "":
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// withPart sends a query with one of its parts, or, if the name is empty, with none.
type withPart struct {
	db.DBTX
	part string
}

// Query implements db.DBTX.
func (w withPart) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	sql, args = withParts(sql, args, w.part)
	return w.DBTX.Query(ctx, sql, args...)
}

// locking returns what a query that locks rows is sent to: it waits for those that are
// locked, or skips them.
func locking(q db.DBTX, waits bool) db.DBTX {
	if waits {
		return withPart{q, ""}
	}
	return withPart{q, "skips"}
}
