package pgsettings

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// byIndexSQL has the server plan no scan of a table where there is an index. It keeps plans that it made when a table
// had ten rows, and such a plan would walk each version of a row that an old snapshot keeps. What costs as much as a
// plan without an index then seems to is not to be compiled. A session that a pooler hands on stays as it is.
const byIndexSQL = `SELECT set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false)
    WHERE pg_backend_pid()::bigint = $1::bigint`

// ByIndex makes a pool's connections ones whose statements use indexes.
func ByIndex(config *pgxpool.Config) {
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, byIndexSQL, anyPooler, int64(conn.PgConn().PID())); err != nil {
			return fmt.Errorf("prepare a session: %w", err)
		}
		return nil
	}
}
