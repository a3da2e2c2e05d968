package schema

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/internal/pgurl"
)

// parseURL reads a PostgreSQL URL or keyword/value string. Its errors never
// quote the input.
func parseURL(databaseURL string) (*pgx.ConnConfig, error) {
	if err := pgurl.Check(databaseURL); err != nil {
		return nil, fmt.Errorf("%w: it %w", ErrURL, err)
	}
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil { // pgurl has parsed it, too
		return nil, fmt.Errorf("%w: it cannot be parsed", ErrURL)
	}
	return config, nil
}
