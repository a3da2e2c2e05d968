package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const database = "agentstore_size"

// measureSchema migrates an empty database of a disposable server.
func measureSchema(ctx context.Context, kind string) (rows []row, err error) {
	server, err := pgtest.Start(ctx, pgtest.Options{Kind: kind, Durable: true, Logf: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}})
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	if err := execute(ctx, server.URL, "CREATE DATABASE "+database+" TEMPLATE template0"); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, execute(context.WithoutCancel(ctx), server.URL, "DROP DATABASE "+database+" WITH (FORCE)"))
	}()
	databaseURL := pgtest.WithDatabase(server.URL, database)
	before, err := measure(ctx, databaseURL)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := schema.Up(ctx, databaseURL); err != nil {
		return nil, err
	}
	took := time.Since(begin)
	after, err := measure(ctx, databaseURL)
	if err != nil {
		return nil, err
	}
	return []row{
		rowOf("of an empty schema", after.relations-before.relations, "relations"),
		{"by which it makes a database larger", fmt.Sprintf("%.1f", float64(after.bytes-before.bytes)/1e6), "MB"},
		{"to make it", fmt.Sprintf("%.1f", took.Seconds()), "seconds"},
	}, nil
}

type measured struct {
	relations int
	bytes     int64
}

func measure(ctx context.Context, databaseURL string) (m measured, err error) {
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	// Neither the catalogue's relations, nor what holds their long values.
	err = conn.QueryRow(ctx, `SELECT count(*), pg_database_size(current_database()) FROM pg_class
		WHERE relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^(pg_|information_schema$)')`).Scan(&m.relations, &m.bytes)
	return m, err
}

func execute(ctx context.Context, databaseURL, sql string) error {
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}
