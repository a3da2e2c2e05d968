package schema

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// Migrator applies, reverts and inspects the schema of one database.
//
// Each call opens a connection of its own and closes it, so a Migrator need not be
// closed. All methods may be called concurrently, by any number of goroutines and
// processes.
type Migrator struct {
	source  source
	options Options

	migrations []Migration
}

// Up applies every pending migration to a database. Services call it at their start.
// Errors: [ErrURL], and errors of [Migrator.Run].
func Up(ctx context.Context, databaseURL string) (err error) {
	defer func() { err = withSentinel(ctx, err) }()
	migrator, err := newMigratorFromURL(databaseURL, Options{})
	if err != nil {
		return err
	}
	_, err = migrator.Run(ctx, TargetLatest())
	return err
}

// Open returns a Migrator for a database URL (postgres://…, or keyword=value pairs),
// and connects once to check that the server answers. The error for an invalid URL
// is [ErrURL], and for an invalid [Options].Schema [ErrSchemaName]; no error contains
// the password. Other errors are a connection's: [ErrUnavailable], [ErrPermission],
// [ErrSetting].
func Open(ctx context.Context, databaseURL string, options Options) (_ *Migrator, err error) {
	defer func() { err = withSentinel(ctx, err) }()
	migrator, err := newMigratorFromURL(databaseURL, options)
	if err != nil {
		return nil, err
	}
	err = migrator.source.read(ctx, func(*sql.Tx) error { return nil })
	if err != nil {
		return nil, err
	}
	return migrator, nil
}

// New returns a Migrator that connects as pool does (with its configuration and its
// BeforeConnect and AfterConnect hooks), but does not use the pool's connections: it
// works with a pool of any size, and does not change the pool's sessions. Errors:
// [ErrInvalid] if pool is nil, [ErrSchemaName].
func New(pool *pgxpool.Pool, options Options) (*Migrator, error) {
	if pool == nil {
		return nil, invalid("pool is nil")
	}
	config := pool.Config()
	from := source{config: config.ConnConfig}
	if config.BeforeConnect != nil {
		from.options = append(from.options, stdlib.OptionBeforeConnect(config.BeforeConnect))
	}
	if config.AfterConnect != nil {
		from.options = append(from.options, stdlib.OptionAfterConnect(config.AfterConnect))
	}
	return newMigrator(from, options)
}

func newMigratorFromURL(databaseURL string, options Options) (*Migrator, error) {
	config, err := parseURL(databaseURL)
	if err != nil {
		return nil, err
	}
	return newMigrator(source{config: config}, options)
}

func newMigrator(from source, options Options) (*Migrator, error) {
	options = options.normal()
	migrations, err := readMigrations(options.Migrations)
	if err != nil {
		return nil, err
	}
	if err := from.prepare(options); err != nil {
		return nil, err
	}
	return &Migrator{source: from, options: options, migrations: migrations}, nil
}
