package agentstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/internal/pgsettings"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/schema"
)

// checkSettings asks a session of the pool for what cannot be pinned, or is not
// on a pool of the caller's.
func checkSettings(ctx context.Context, pool *pgxpool.Pool) error {
	return ask(ctx, pool, pgsettings.Ask)
}

// checkWritable is for a database whose schema is there.
func checkWritable(ctx context.Context, pool *pgxpool.Pool) error {
	return ask(ctx, pool, pgsettings.AskWritable)
}

func ask(ctx context.Context, pool *pgxpool.Pool, question func(context.Context, *pgx.Conn) error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return schemaError(ctx, err)
	}
	defer conn.Release()
	return schemaError(ctx, question(ctx, conn.Conn()))
}

// schemaError gives an error of package schema, or of a look at the settings, its
// sentinel.
func schemaError(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, schema.ErrBehind), errors.Is(err, schema.ErrAhead), errors.Is(err, schema.ErrGap),
		errors.Is(err, schema.ErrUnknownVersion), errors.Is(err, schema.ErrSetting):
		return fmt.Errorf("%w: %w", repo.ErrSchema, err)
	}
	// The database's own errors; err says what was being done.
	translated := postgres.Translate(ctx, err)
	for _, sentinel := range []error{repo.ErrPermission, repo.ErrSchema} {
		if errors.Is(translated, sentinel) {
			return fmt.Errorf("%w: %w", sentinel, err)
		}
	}
	return fmt.Errorf("%w: %w", repo.ErrUnavailable, err)
}
