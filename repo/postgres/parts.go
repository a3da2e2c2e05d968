package postgres

import (
	"slices"
	"strings"
	"sync"
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
