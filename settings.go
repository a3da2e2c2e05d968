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

// checkSettings checks on one session the settings that cannot be set for the pool,
// or are not set on a caller's pool, and the schema that was requested.
func checkSettings(ctx context.Context, pool *pgxpool.Pool, in string) error {
	return ask(ctx, pool, func(ctx context.Context, conn *pgx.Conn) error {
		if err := pgsettings.Ask(ctx, conn); err != nil || in == "" {
			return err
		}
		return pgsettings.CheckPlace(conn.QueryRow(ctx, pgsettings.PlaceSQL, pgx.QueryExecModeSimpleProtocol), in)
	})
}

// ask asks one session of the pool.
func ask(ctx context.Context, pool *pgxpool.Pool, question func(context.Context, *pgx.Conn) error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return schemaError(ctx, err)
	}
	defer conn.Release()
	return schemaError(ctx, question(ctx, conn.Conn()))
}

// schemaError adds the sentinel to an error of package schema or of a check of the
// settings.
func schemaError(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, schema.ErrBehind), errors.Is(err, schema.ErrAhead), errors.Is(err, schema.ErrGap),
		errors.Is(err, schema.ErrUnknownVersion), errors.Is(err, schema.ErrSetting), errors.Is(err, schema.ErrExists):
		return fmt.Errorf("%w: %w", repo.ErrSchema, err)
	}
	// An error of the database; err says what failed.
	translated := postgres.Translate(ctx, err)
	for _, sentinel := range []error{repo.ErrPermission, repo.ErrSchema} {
		if errors.Is(translated, sentinel) {
			return fmt.Errorf("%w: %w", sentinel, err)
		}
	}
	return fmt.Errorf("%w: %w", repo.ErrUnavailable, err)
}
