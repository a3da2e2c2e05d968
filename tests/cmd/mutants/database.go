package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A statement that PostgreSQL does not understand, or a migration that fails, makes each test
// fail, and says nothing about any. So it is tried before.

// prepared returns the types of a statement's arguments and columns.
func (b *bench) prepared(ctx context.Context, statement string) (types string, err error) {
	if b.database == nil {
		if b.database, err = b.migrated(ctx, "agentstore_statements"); err != nil {
			return "", err
		}
	}
	description, err := b.database.Prepare(ctx, "", statement)
	if err != nil {
		return "", err
	}
	types = fmt.Sprint(description.ParamOIDs)
	for _, column := range description.Fields {
		types += fmt.Sprint(" ", column.Name, column.DataTypeOID)
	}
	return types, nil
}

// migrates returns why the copy's migrations fail, or nil.
func (b *bench) migrates(ctx context.Context) error {
	conn, err := b.migrated(ctx, "agentstore_mutant")
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// migrated makes a database with the copy's migrations, and connects to it. The server is
// disposable.
func (b *bench) migrated(ctx context.Context, name string) (conn *pgx.Conn, err error) {
	admin, err := pgx.Connect(ctx, b.server)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, admin.Close(ctx)) }()
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + name, "CREATE DATABASE " + name + " TEMPLATE template0"} {
		if _, err := admin.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	pool, err := pgxpool.New(ctx, pgtest.WithDatabase(b.server, name))
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	migrator, err := schema.New(pool, schema.Options{Migrations: os.DirFS(filepath.Join(b.dir, "schema", "migrations"))})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Run(ctx, schema.TargetLatest()); err != nil {
		return nil, err
	}
	return pgx.Connect(ctx, pgtest.WithDatabase(b.server, name))
}
