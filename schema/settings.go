package schema

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/seed-df90f812/agentstore/internal/pgsettings"
)

// SettingError reports a setting of the server, the database, the role or the session
// under which agentstore cannot work. Its fields are strings: Name and Value, such as
// client_encoding and LATIN1, and Reason, which says what is needed, and why. It
// matches [ErrSetting].
type SettingError = pgsettings.Error

// ErrSetting means that agentstore cannot work under a setting of the session
// ([SettingError]).
var ErrSetting = pgsettings.ErrSetting

// checkSettings refuses a session in which a version could have another effect than
// intended, or would create its tables in another schema than the existing ones.
// The schema in Options.Schema need not exist yet. It returns the schema in which versions are run.
func (m *Migrator) checkSettings(ctx context.Context, db *sql.DB) (schema string, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return "", fmt.Errorf("schema: connect: %w", err)
	}
	defer conn.Close()
	err = conn.Raw(func(driverConn any) error {
		direct := driverConn.(*stdlib.Conn).Conn()
		if err := pgsettings.Ask(ctx, direct); err != nil {
			return err
		}
		place, err := pgsettings.ReadPlace(direct.QueryRow(ctx, pgsettings.PlaceSQL))
		schema = place.First()
		switch {
		case err != nil:
			return err
		case place.ReadOnly:
			return pgsettings.ReadOnly()
		case m.options.Schema != "":
			return place.CheckSchema(m.options.Schema)
		}
		return place.Check()
	})
	if err != nil {
		return "", fmt.Errorf("schema: %w", err)
	}
	return schema, nil
}

// No query of sqlc's: package db is for stores, and CREATE SCHEMA takes no arguments.
const schemaExistsSQL = `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`

// makeSchema creates the schema that Options.Schema names. The caller holds the
// lock, so no other migrator creates it meanwhile.
func (m *Migrator) makeSchema(ctx context.Context, db *sql.DB) error {
	if m.options.Schema == "" {
		return nil
	}
	// CREATE SCHEMA IF NOT EXISTS needs the privilege even if the schema exists.
	var exists bool
	err := db.QueryRowContext(ctx, schemaExistsSQL, m.options.Schema).Scan(&exists)
	if err == nil && !exists {
		_, err = db.ExecContext(ctx, "CREATE SCHEMA "+pgx.Identifier{m.options.Schema}.Sanitize())
	}
	if err != nil {
		return fmt.Errorf("schema: make the schema %q: %w", m.options.Schema, cause(ctx, err))
	}
	if err := pgsettings.CheckPlace(db.QueryRowContext(ctx, pgsettings.PlaceSQL), ""); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return nil
}
