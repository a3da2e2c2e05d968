package pgsettings

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// oldestServer is the oldest major version of PostgreSQL that is supported.
const oldestServer = 13

// anyPooler is the mode without prepared statements, which works with any pooler.
const anyPooler = pgx.QueryExecModeSimpleProtocol

// The second argument of current_setting: an unknown setting is null, not an error.
const askSQL = `
SELECT coalesce(current_setting('server_version', true), ''), current_setting('server_version_num')::int,
       coalesce(current_setting('bytea_output', true), ''), coalesce(current_setting('array_nulls', true), ''),
       coalesce(current_setting('transform_null_equals', true), ''),
           coalesce(current_setting('session_replication_role', true), ''),
       coalesce(current_setting('extra_float_digits', true), '')`

// Ask checks the settings that the server has reported, and queries the others in one
// round trip. It returns an [Error], or the query's error.
func Ask(ctx context.Context, conn *pgx.Conn) error {
	if err := Reported(conn); err != nil {
		return err
	}
	var version string
	var number int
	values := make([]string, len(asked)) // in the order of the query
	destinations := []any{&version, &number}
	for i := range values {
		destinations = append(destinations, &values[i])
	}
	if err := conn.QueryRow(ctx, askSQL, anyPooler).Scan(destinations...); err != nil {
		return fmt.Errorf("read the session's settings: %w", err)
	}
	if number/10000 < oldestServer {
		return &Error{Name: "server_version", Value: version, Reason: fmt.Sprintf("PostgreSQL %d or later is needed",
			oldestServer)}
	}
	at := modeOf(conn)
	for i, need := range asked {
		if err := need.check(values[i], at); err != nil {
			return err
		}
	}
	return nil
}

// A session is refused only if its role may append: for a read-only role the setting is
// reasonable. It is also accepted if the URL sets it, which is deliberate, and on a
// standby, which takes no writes anyway.
const readOnlySQL = `
SELECT s.setting = 'on' AND s.source <> 'client' AND NOT pg_is_in_recovery()
       AND has_table_privilege(to_regclass('session_counters'), 'UPDATE')
FROM pg_settings s WHERE s.name = 'default_transaction_read_only'`

// AskWritable refuses a session that is read-only by default although its role may
// write. The database must be migrated.
func AskWritable(ctx context.Context, conn *pgx.Conn) error {
	if conn.PgConn().ParameterStatus("default_transaction_read_only") == "off" { // reported since version 14
		return nil
	}
	var refused *bool
	if err := conn.QueryRow(ctx, readOnlySQL, anyPooler).Scan(&refused); err != nil {
		return fmt.Errorf("read the session's settings: %w", err)
	}
	if refused != nil && *refused {
		return ReadOnly()
	}
	return nil
}

// ReadOnly returns the error of a session that is read-only by default.
func ReadOnly() error {
	return &Error{
		Name: "default_transaction_read_only", Value: "on",
		Reason: "every write would be refused: set it off for this role and database, or in the URL",
	}
}
