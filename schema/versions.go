package schema

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3/database"

	"github.com/seed-df90f812/agentstore/internal/pgsettings"
)

// The applied versions are the rows of agentstore_migrations. As the last safeguard,
// the primary key keeps a version from being recorded twice.
const (
	createVersionTableSQL = `
CREATE TABLE agentstore_migrations (
    version        bigint      NOT NULL,
    oldest_library bigint      NOT NULL,
    applied_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT agentstore_migrations_pkey PRIMARY KEY (version),
    CONSTRAINT agentstore_migrations_version_check CHECK (oldest_library BETWEEN 1 AND version)
)`
	versionTableExistsSQL = `SELECT to_regclass('agentstore_migrations') IS NOT NULL`
	latestVersionSQL      = `SELECT coalesce(max(version), 0) FROM agentstore_migrations`
	getVersionSQL         = `SELECT applied_at FROM agentstore_migrations WHERE version = $1`
	deleteVersionSQL      = `DELETE FROM agentstore_migrations WHERE version = $1`
	// The largest of the declared values counts, so that a later version cannot lower what an earlier one requires.
	listVersionsSQL  = `SELECT coalesce(json_agg(m ORDER BY version DESC), '[]') FROM agentstore_migrations m`
	insertVersionSQL = `INSERT INTO agentstore_migrations (version, oldest_library) VALUES ($1, $2)`

	holdsLockSQL = `
SELECT EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid = pg_backend_pid()
      AND (classid::bigint << 32 | objid::bigint) = $1)`
)

// Querier is what [Check] needs. *pgxpool.Pool, *pgx.Conn and pgx.Tx have it.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Check returns nil if this library works on the database: it has the library's version, or a newer one that allows the
// library. Otherwise it returns [ErrBehind], [ErrAhead], [ErrGap], [ErrUnknownVersion], [ErrSetting] if there are no
// tables and the first schema of search_path does not exist, or, if it cannot read, [ErrUnavailable], [ErrPermission]
// or [ErrFailed]. It takes no lock, changes nothing, and leaves a transaction usable: no read in it can fail because a
// table is missing.
func Check(ctx context.Context, querier Querier) (err error) {
	defer func() { err = withSentinel(ctx, err) }()
	applied, err := readVersions(func(query string) scanner { return querier.QueryRow(ctx, query) })
	if err != nil {
		return err
	}
	if applied == nil { // perhaps because of the search_path
		if err := pgsettings.CheckPlace(querier.QueryRow(ctx, pgsettings.PlaceSQL), ""); err != nil {
			return fmt.Errorf("schema: %w", err)
		}
	}
	return validate(embeddedMigrations(), applied)
}

// appliedVersion is a row of the version table.
type appliedVersion struct {
	Version       int64     `json:"version"`
	AppliedAt     time.Time `json:"applied_at"`
	OldestLibrary int64     `json:"oldest_library"`
}

// scanner is the row of a query, of whichever driver.
type scanner interface{ Scan(into ...any) error }

// readVersions returns the applied versions, newest first, or nil if there is no
// version table.
func readVersions(row func(query string) scanner) (applied []appliedVersion, err error) {
	var exists bool
	var text []byte
	if err = row(versionTableExistsSQL).Scan(&exists); err == nil && exists {
		if err = row(listVersionsSQL).Scan(&text); err == nil {
			err = json.Unmarshal(text, &applied)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("schema: read versions: %w", err)
	}
	return applied, nil
}

// versionTable gives goose access to the version table. goose calls Insert and
// Delete last in each version's transaction.
type versionTable struct {
	migrations []Migration
	lock       int64
}

var _ database.StoreExtender = versionTable{}

func (versionTable) Tablename() string { return "agentstore_migrations" }

func (versionTable) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	_, err := db.ExecContext(ctx, createVersionTableSQL)
	return err
}

func (versionTable) TableExists(ctx context.Context, db database.DBTxConn) (bool, error) {
	var exists bool
	err := db.QueryRowContext(ctx, versionTableExistsSQL).Scan(&exists)
	return exists, err
}

func (t versionTable) Insert(ctx context.Context, db database.DBTxConn, request database.InsertRequest) error {
	if request.Version == 0 {
		return nil // goose adds a row 0 to a new table, which has no meaning here.
	}
	if err := t.checkLock(ctx, db); err != nil {
		return err
	}
	for _, migration := range t.migrations {
		if migration.Version == request.Version {
			_, err := db.ExecContext(ctx, insertVersionSQL, migration.Version, migration.OldestLibrary)
			return err
		}
	}
	return &UnknownVersionError{Version: request.Version}
}

func (t versionTable) Delete(ctx context.Context, db database.DBTxConn, version int64) error {
	if err := t.checkLock(ctx, db); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, deleteVersionSQL, version)
	return err
}

func (versionTable) GetMigration(ctx context.Context, db database.DBTxConn,
	version int64,
) (*database.GetMigrationResult, error) {
	result := database.GetMigrationResult{IsApplied: true}
	err := db.QueryRowContext(ctx, getVersionSQL, version).Scan(&result.Timestamp)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, database.ErrVersionNotFound
	}
	return &result, err
}

func (versionTable) GetLatestVersion(ctx context.Context, db database.DBTxConn) (int64, error) {
	var version int64
	err := db.QueryRowContext(ctx, latestVersionSQL).Scan(&version)
	return version, err
}

func (versionTable) ListMigrations(ctx context.Context, db database.DBTxConn) ([]*database.ListMigrationsResult,
	error,
) {
	applied, err := readVersions(func(query string) scanner { return db.QueryRowContext(ctx, query) })
	if err != nil {
		return nil, err
	}
	results := make([]*database.ListMigrationsResult, 0, len(applied))
	for _, row := range applied {
		results = append(results, &database.ListMigrationsResult{Version: row.Version, IsApplied: true})
	}
	return results, nil
}

// checkLock refuses to commit a version in a session that does not hold the lock,
// because a transaction pooler gave the lock to another session.
func (t versionTable) checkLock(ctx context.Context, db database.DBTxConn) error {
	var held bool
	if err := db.QueryRowContext(ctx, holdsLockSQL, t.lock).Scan(&held); err != nil {
		return fmt.Errorf("check migration lock: %w", err)
	}
	if !held {
		return ErrPooled
	}
	return nil
}
