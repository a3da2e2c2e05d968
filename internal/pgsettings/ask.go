package pgsettings

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// oldestServer is the oldest major version of PostgreSQL that is supported.
const oldestServer = 13

// anyPooler is the mode that prepares nothing, so that any pooler can carry it.
const anyPooler = pgx.QueryExecModeSimpleProtocol

// The second argument: a setting that this server does not have is no error.
const askSQL = `
SELECT coalesce(current_setting('server_version', true), ''), current_setting('server_version_num')::int,
       coalesce(current_setting('bytea_output', true), ''), coalesce(current_setting('array_nulls', true), ''),
       coalesce(current_setting('transform_null_equals', true), ''), coalesce(current_setting('session_replication_role', true), '')`

// Ask checks what the server told the driver, and asks for the rest, in one round
// trip. Its error is an [Error], or the query's.
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
		return &Error{Name: "server_version", Value: version, Reason: fmt.Sprintf("PostgreSQL %d or later is needed", oldestServer)}
	}
	at := modeOf(conn)
	for i, need := range asked {
		if err := need.check(values[i], at); err != nil {
			return err
		}
	}
	return nil
}

// Only a role that may append is refused: one that only reads may well be kept
// from writing by default too. Who asks for it in the URL means it, and a standby
// takes no writes whatever the setting.
const readOnlySQL = `
SELECT s.setting = 'on' AND s.source <> 'client' AND NOT pg_is_in_recovery()
       AND has_table_privilege(to_regclass('session_counters'), 'UPDATE')
FROM pg_settings s WHERE s.name = 'default_transaction_read_only'`

// AskWritable refuses a session that is read-only by default although its role may
// write. The database is migrated.
func AskWritable(ctx context.Context, conn *pgx.Conn) error {
	if conn.PgConn().ParameterStatus("default_transaction_read_only") == "off" { // servers tell it since version 14
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

// ReadOnly is the error of a session that takes no writes unless asked to.
func ReadOnly() error {
	return &Error{
		Name: "default_transaction_read_only", Value: "on",
		Reason: "every write would be refused: set it off for this role and database, or in the URL",
	}
}
