package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/adapters/adk"
)

const (
	ourSchema, theirSchema = "bench_agentstore", "bench_framework"

	ourConnections, theirConnections = 16, 64
)

// way is a service, and what counts the events that it has stored.
type way struct {
	name    string
	service session.Service
	count   string
}

// lab is both services, each in a schema of its own.
type lab struct {
	ways    []way
	conn    *pgx.Conn
	closers []func() error
}

func newLab(ctx context.Context, databaseURL string) (l *lab, err error) {
	l = &lab{}
	if l.conn, err = pgx.Connect(ctx, databaseURL); err != nil {
		return nil, err
	}
	if err = l.open(ctx, databaseURL); err != nil {
		return nil, errors.Join(err, l.leave(ctx))
	}
	return l, nil
}

func (l *lab) open(ctx context.Context, databaseURL string) error {
	if err := l.clear(ctx); err != nil {
		return err
	}
	if _, err := l.conn.Exec(ctx, fmt.Sprintf("CREATE SCHEMA %s; CREATE SCHEMA %s", ourSchema, theirSchema), pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	pool, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return err
	}
	pool.ConnConfig.RuntimeParams["search_path"] = ourSchema
	pool.MaxConns = ourConnections
	connections, err := pgxpool.NewWithConfig(ctx, pool)
	if err != nil {
		return err
	}
	store, err := agentstore.OpenPool(ctx, connections, agentstore.Options{Migrate: true, Schema: ourSchema})
	if err != nil {
		connections.Close()
		return err
	}
	l.closers = append(l.closers, store.Close, func() error { connections.Close(); return nil })

	config := l.conn.Config().Copy()
	config.RuntimeParams["search_path"] = theirSchema
	db := stdlib.OpenDB(*config)
	l.closers = append(l.closers, db.Close)
	db.SetMaxOpenConns(theirConnections)
	db.SetMaxIdleConns(theirConnections)
	theirs, err := database.NewSessionService(postgres.New(postgres.Config{Conn: db}), &gorm.Config{Logger: logger.Discard})
	if err == nil {
		err = database.AutoMigrate(theirs)
	}
	l.ways = []way{
		{"adapter", adk.NewSessionService(store), "SELECT count(*) FROM " + ourSchema + ".messages"},
		{"framework", theirs, "SELECT count(*) FROM " + theirSchema + ".events"},
	}
	return err
}

// leave closes both services and drops the schemas, also if ctx has ended.
func (l *lab) leave(ctx context.Context) (err error) {
	ctx = context.WithoutCancel(ctx)
	for _, closer := range l.closers {
		err = errors.Join(err, closer())
	}
	return errors.Join(err, l.clear(ctx), l.conn.Close(ctx))
}

func (l *lab) clear(ctx context.Context) error {
	_, err := l.conn.Exec(ctx, fmt.Sprintf("DROP SCHEMA IF EXISTS %s, %s CASCADE", ourSchema, theirSchema), pgx.QueryExecModeSimpleProtocol)
	return err
}
