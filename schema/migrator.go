package schema

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// Migrator applies, reverts and inspects the schema of one database.
//
// Each call opens a connection of its own and closes it: a Migrator holds
// nothing between calls and needs no closing. All methods may be called
// concurrently, by any number of goroutines and processes.
type Migrator struct {
	source     source
	options    Options
	fsys       fs.FS
	migrations []Migration
}

// Up applies every pending migration to a database. It is what a service calls
// at its start: see [Migrator.Up].
func Up(ctx context.Context, databaseURL string) error {
	migrator, err := newMigratorFromURL(databaseURL, Options{})
	if err != nil {
		return err
	}
	_, err = migrator.Up(ctx)
	return err
}

// Open makes a Migrator for a database URL (postgres://…, or keyword=value
// pairs), and connects once to see that the server answers. A URL that cannot
// be used gives [ErrURL]; no error holds the password.
func Open(ctx context.Context, databaseURL string, options Options) (*Migrator, error) {
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

// New makes a Migrator that connects as pool does (its configuration and its
// BeforeConnect and AfterConnect hooks), without taking any of the pool's
// connections: a small pool cannot starve it, and the pool's sessions stay as
// they are.
func New(pool *pgxpool.Pool, options Options) (*Migrator, error) {
	if pool == nil {
		return nil, fmt.Errorf("schema: pool is nil")
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
	fsys := options.migrations()
	migrations, err := readMigrations(fsys)
	if err != nil {
		return nil, err
	}
	from.prepare(options.AllowDataLoss)
	return &Migrator{source: from, options: options, fsys: fsys, migrations: migrations}, nil
}

// Up applies every pending version and returns what it applied: nothing when
// the database is up to date, which takes no lock. Errors: see [Migrator.Run].
func (m *Migrator) Up(ctx context.Context) ([]Step, error) {
	return m.Run(ctx, TargetLatest())
}

// UpTo applies what is pending up to version and including it.
func (m *Migrator) UpTo(ctx context.Context, version int64) ([]Step, error) {
	return m.Run(ctx, TargetUp(version))
}

// Down reverts the newest steps versions. A revert that would destroy rows
// gives [ErrDataLoss] and changes nothing, unless Options.AllowDataLoss is set.
func (m *Migrator) Down(ctx context.Context, steps int) ([]Step, error) {
	if steps < 1 {
		return nil, fmt.Errorf("schema: steps must be at least 1, not %d", steps)
	}
	return m.Run(ctx, TargetDownSteps(steps))
}

// DownTo reverts every version above version, newest first; 0 reverts all.
func (m *Migrator) DownTo(ctx context.Context, version int64) ([]Step, error) {
	return m.Run(ctx, TargetDown(version))
}
