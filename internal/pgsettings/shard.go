package pgsettings

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A pool of several schemas has connections that are in one of them at a time. Whoever acquires one
// says in which, by the context.

type schemaKey struct{}

// In returns a context with which a connection of a pool of schemas is acquired for one of them. Empty:
// ctx itself.
func In(ctx context.Context, schema string) context.Context {
	if schema == "" {
		return ctx
	}
	return context.WithValue(ctx, schemaKey{}, schema)
}

// current is the name of a connection's schema among its custom data, and lent that of one whose search_path
// a caller may have changed, which no schema has.
const current, lent = "agentstore.schema", "\x00"

// Lend notes that a caller gets a connection, and may change its search_path.
func Lend(conn *pgx.Conn) {
	if custom := conn.PgConn().CustomData(); custom[current] != nil {
		custom[current] = lent
	}
}

// The path is set only if the session is the connection's own: in one that a pooler hands on, others would find the schema.
const (
	setSchemaSQL   = `SELECT CASE WHEN pg_backend_pid()::bigint = $1::bigint THEN set_config('search_path', $2, false) END, pg_backend_pid()`
	leaveSchemaSQL = `RESET search_path`
)

// ShareSchemas makes the pool of a configuration one of several schemas. A connection changes its schema
// when it is acquired for another one than before, which is one round trip. In the hands of a caller of the pool it is in none of
// them: a statement that names no schema would be of any.
func ShareSchemas(config *pgxpool.Config) {
	config.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		schema, _ := ctx.Value(schemaKey{}).(string)
		custom := conn.PgConn().CustomData()
		now, _ := custom[current].(string)
		switch {
		case schema != "" && now == schema:
			return true, nil
		case schema != "":
			return enter(ctx, conn, schema)
		case now != "" && now != lent:
			if _, err := conn.Exec(ctx, leaveSchemaSQL); err != nil {
				return false, fmt.Errorf("leave the schema of a shard: %w", err)
			}
		}
		if now != "" {
			custom[current] = lent
		}
		return true, nil
	}
}

func enter(ctx context.Context, conn *pgx.Conn, schema string) (bool, error) {
	custom, own := conn.PgConn().CustomData(), conn.PgConn().PID()
	custom[current] = lent // until it is known
	var path *string
	var process uint32
	err := conn.QueryRow(ctx, setSchemaSQL, anyPooler, int64(own), pgx.Identifier{schema}.Sanitize()).Scan(&path, &process)
	switch {
	case err != nil:
		return false, fmt.Errorf("choose the schema of a shard: %w", err)
	case process != own:
		return false, &Error{Name: searchPath, Reason: "a pooler may hand the session to others: shards need connections that lead to the server"}
	}
	custom[current] = schema
	return true, nil
}
