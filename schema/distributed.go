package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/internal/pgsettings"
)

// The statements of Citus are no queries of sqlc's: it does not know the engine's catalogs and functions, which most
// servers do not have.
const (
	hasCitusSQL      = `SELECT to_regclass('pg_catalog.pg_dist_schema') IS NOT NULL`
	isDistributedSQL = `SELECT EXISTS (SELECT
	    FROM pg_catalog.pg_dist_schema s JOIN pg_namespace n ON n.oid = s.schemaid WHERE n.nspname = current_schema())`
	nodeSQL = `
SELECT d.nodename || ':' || d.nodeport
FROM pg_catalog.pg_dist_schema s JOIN pg_namespace n ON n.oid = s.schemaid
JOIN pg_catalog.pg_dist_partition t ON t.colocationid = s.colocationid
JOIN pg_catalog.pg_dist_shard f ON f.logicalrelid = t.logicalrelid
JOIN pg_catalog.pg_dist_placement p ON p.shardid = f.shardid JOIN pg_catalog.pg_dist_node d ON d.groupid = p.groupid
WHERE n.nspname = current_schema() ORDER BY d.nodeport LIMIT 1`
	triggersSQL = `
SELECT format('ALTER TABLE %s DISABLE TRIGGER %I', t.tgrelid::regclass, t.tgname),
    format('ALTER TABLE %s ENABLE %s TRIGGER %I', t.tgrelid::regclass,
    CASE t.tgenabled WHEN 'A' THEN 'ALWAYS' WHEN 'R' THEN 'REPLICA' ELSE '' END, t.tgname)
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal AND t.tgenabled <> 'D'`
	distributeSQL = `SELECT citus_schema_distribute(current_schema()::regnamespace)`
	// Functions that a node calls find the tables of their schema: the engine does not hand the search_path on.
	functionsSQL = `
SELECT format('ALTER FUNCTION %s SET search_path = %I, pg_temp', p.oid::regprocedure, n.nspname)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = current_schema() AND p.proconfig IS NULL`
	rebalanceSQL = `SELECT citus_rebalance_start(shard_transfer_mode => 'force_logical')`
	progressSQL  = `SELECT state::text FROM citus_job_status($1)`
	settingSQL   = `SELECT coalesce(current_setting($1, true), ''), current_database()`
)

// citusSettings are what Citus needs to be told before it takes the schema, and why.
var citusSettings = []struct{ name, why string }{
	{"citus.enable_unsafe_triggers", "the tables have triggers"},
	{"citus.allow_nested_distributed_execution", "functions read the tables of their schema, which are on one node"},
}

// IsDistributed reports whether the schema of a session is on a node of Citus: see [Migrator.Distribute].
func IsDistributed(ctx context.Context, conn *pgx.Conn) (is bool, err error) {
	defer func() { err = withSentinel(ctx, err) }()
	if err := conn.QueryRow(ctx, hasCitusSQL).Scan(&is); err != nil || !is {
		return false, located(err)
	}
	return is, located(conn.QueryRow(ctx, isDistributedSQL).Scan(&is))
}

func located(err error) error {
	if err != nil {
		return fmt.Errorf("schema: read where the schema is: %w", err)
	}
	return nil
}

// Node returns the node of Citus on which the schema is, as host:port. It is empty if it is on none.
func (m *Migrator) Node(ctx context.Context) (node string, err error) {
	defer func() { err = withSentinel(ctx, err) }()
	err = m.source.read(ctx, func(tx *sql.Tx) error {
		var has bool
		if err := tx.QueryRowContext(ctx, hasCitusSQL).Scan(&has); err != nil || !has {
			return located(err)
		}
		err := tx.QueryRowContext(ctx, nodeSQL).Scan(&node)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return located(err)
	})
	return node, err
}

// Distribute gives the migrated schema to a node of Citus, whole, and returns the node. It may be called again, and
// must be after an upgrade. No process may have a store of the schema open before: it looks when it opens one. The
// context is as in [Migrator.Run].
//
// Errors: as of [Migrator.Validate]; [ErrSetting] if the database has no Citus, or one that is not set up as the
// error says; [ErrLocked]; [ErrFailed].
func (m *Migrator) Distribute(ctx context.Context) (node string, err error) {
	defer func() { err = withSentinel(ctx, err) }()
	if err := m.Validate(ctx); err != nil {
		return "", err
	}
	db := m.source.open()
	defer db.Close()
	schema, err := m.checkSettings(ctx, db)
	if err != nil {
		return "", err
	}
	release, err := m.locker(schema).lock(ctx, db)
	if err != nil {
		return "", err
	}
	defer release()
	if err := checkCitus(ctx, db); err != nil {
		return "", err
	}
	var is bool
	if err := db.QueryRowContext(ctx, isDistributedSQL).Scan(&is); err != nil {
		return "", located(err)
	}
	if !is {
		if err := distribute(ctx, db); err != nil {
			return "", fmt.Errorf("schema: distribute: %w", err)
		}
	}
	if err := qualify(ctx, db); err != nil {
		return "", fmt.Errorf("schema: distribute: %w", err)
	}
	return m.Node(ctx)
}

// checkWhole returns an error if the schema is on a node, where the engine refuses some commands of migrations.
func (m *Migrator) checkWhole(ctx context.Context) error {
	node, err := m.Node(ctx)
	if err != nil || node == "" {
		return err
	}
	return fmt.Errorf("schema: %w", &pgsettings.Error{
		Name: "citus", Value: node, Reason: "a schema on a node cannot be migrated: take it back with " +
			"citus_schema_undistribute, migrate, and distribute it again",
	})
}

// checkCitus returns why the database cannot distribute a schema.
func checkCitus(ctx context.Context, db *sql.DB) error {
	var has bool
	if err := db.QueryRowContext(ctx, hasCitusSQL).Scan(&has); err != nil {
		return located(err)
	}
	if !has {
		return fmt.Errorf("schema: %w", &pgsettings.Error{
			Name: "citus", Value: "", Reason: "the database must have the extension, version 12 or later: CREATE " +
				"EXTENSION citus",
		})
	}
	for _, need := range citusSettings {
		var value, database string
		if err := db.QueryRowContext(ctx, settingSQL, need.name).Scan(&value, &database); err != nil {
			return located(err)
		}
		if value != "on" {
			return fmt.Errorf("schema: %w", &pgsettings.Error{Name: need.name, Value: value, Reason: fmt.Sprintf(
				"it must be on, because %s: ALTER DATABASE %s SET %s = on", need.why, pgx.Identifier{database}.Sanitize(),
				need.name)})
		}
	}
	return nil
}

// distribute moves the tables without their triggers, which would be run again for each row on the way.
func distribute(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	off, on, err := triggers(ctx, tx)
	if err != nil {
		return err
	}
	for _, statement := range slices.Concat(off, []string{distributeSQL}, on) {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// triggers returns the statements that turn the schema's triggers off, and on again.
func triggers(ctx context.Context, tx *sql.Tx) (off, on []string, err error) {
	rows, err := tx.QueryContext(ctx, triggersSQL)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var disable, enable string
		if err := rows.Scan(&disable, &enable); err != nil {
			return nil, nil, err
		}
		off, on = append(off, disable), append(on, enable)
	}
	return off, on, rows.Err()
}

// qualify has the schema's functions find its tables on any node.
func qualify(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, functionsSQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			return err
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, one := range all {
		if _, err := db.ExecContext(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// Rebalance has Citus spread the schemas of the database over its nodes, and waits until it has. Stores go on
// meanwhile. If the context ends, Citus goes on.
//
// Errors: [ErrSetting] if the database has no Citus; [ErrFailed] if it does not succeed.
func (m *Migrator) Rebalance(ctx context.Context) (err error) {
	defer func() { err = withSentinel(ctx, err) }()
	db := m.source.open()
	defer db.Close()
	if err := checkCitus(ctx, db); err != nil {
		return err
	}
	var job sql.NullInt64
	if err := db.QueryRowContext(ctx, rebalanceSQL).Scan(&job); err != nil {
		return fmt.Errorf("schema: rebalance: %w", err)
	}
	for job.Valid { // null: nothing is to be moved
		var state string
		if err := db.QueryRowContext(ctx, progressSQL, job.Int64).Scan(&state); err != nil {
			return fmt.Errorf("schema: rebalance: %w", err)
		}
		switch state {
		case "finished":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("%w: the rebalance %s: see citus_rebalance_status()", ErrFailed, state)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("schema: wait for the rebalance: %w", ended(ctx))
		case <-time.After(progressEvery):
		}
	}
	return nil
}

// progressEvery is how often the engine is asked whether it is done.
const progressEvery = 500 * time.Millisecond
