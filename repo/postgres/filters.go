package postgres

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
)

// filtering stands between a generated query and the connection, and sends the
// query for the filters that are set. A filter that need not be set is written
//
//	AND ($3::text IS NULL OR e.actor = $3::text)
//
// alone on its line, which in a generic plan, made for any arguments, uses no index. So
// the filters that are null are left out, and the first that is not becomes a plain
// condition: "AND e.actor = $3::text". The others stay as they are, so that the plan
// keeps to the index of the first. (A plan for the arguments of each call would find
// the indexes, too; but with the audit trail of two years it takes ten times as long to
// make as a page to read.)
//
// Each combination of filters is a statement of its own.
type filtering struct{ db.DBTX }

// filtered is the way for queries with filters that need not be set.
func filtered(by way) way {
	return func(ctx context.Context, statements func(db.DBTX) error) error {
		return by(ctx, func(q db.DBTX) error { return statements(filtering{q}) })
	}
}

// Query is DBTX's.
func (f filtering) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	sql, args = setFilters(sql, args)
	return f.DBTX.Query(ctx, sql, args...)
}

// QueryRow is DBTX's.
func (f filtering) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	sql, args = setFilters(sql, args)
	return f.DBTX.QueryRow(ctx, sql, args...)
}

var (
	optionalFilter = regexp.MustCompile(`\n *AND \(\$(\d+)::\w+ IS NULL OR ([^)\n]+)\)`)
	parameter      = regexp.MustCompile(`\$(\d+)`)
)

// filteredQuery is a query with a combination of its filters.
type filteredQuery struct {
	sql        string
	parameters []int // their places among the arguments of the whole query
}

// combinations are the filtered queries that were sent: there are no more of them than
// combinations of filters.
var combinations sync.Map // of combination to *filteredQuery

type combination struct {
	sql   string
	nulls uint64 // a bit for each argument
}

func setFilters(sql string, args []any) (string, []any) {
	key := combination{sql: sql}
	for i, arg := range args {
		if isNull(arg) {
			key.nulls |= 1 << i
		}
	}
	found, ok := combinations.Load(key)
	if !ok {
		found, _ = combinations.LoadOrStore(key, key.query())
	}
	query := found.(*filteredQuery)
	used := make([]any, len(query.parameters))
	for i, place := range query.parameters {
		used[i] = args[place]
	}
	return query.sql, used
}

func (c combination) query() *filteredQuery {
	first, query := true, &filteredQuery{}
	sql := optionalFilter.ReplaceAllStringFunc(c.sql, func(line string) string {
		parts := optionalFilter.FindStringSubmatch(line)
		switch {
		case c.nulls>>placeOf(parts[1])&1 == 1:
			return ""
		case first:
			first = false
			return "\n    AND " + parts[2]
		default:
			return line
		}
	})
	// The server wants to know the type of each parameter: none may be left over.
	query.sql = parameter.ReplaceAllStringFunc(sql, func(old string) string {
		place := placeOf(old[1:])
		number := slices.Index(query.parameters, place)
		if number < 0 {
			number = len(query.parameters)
			query.parameters = append(query.parameters, place)
		}
		return "$" + strconv.Itoa(number+1)
	})
	return query
}

// placeOf is the place of a parameter's argument.
func placeOf(number string) int {
	n, _ := strconv.Atoi(number) // sqlc numbers them
	return n - 1
}

// isNull reports whether a filter's argument is null. Other types no filter has.
func isNull(arg any) bool {
	switch arg := arg.(type) {
	case pgtype.UUID:
		return !arg.Valid
	case *string:
		return arg == nil
	}
	return false
}
