package migrate

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/schema"
)

// naiveVariable makes another process of this test binary a naive migrator of the
// database that it names.
const naiveVariable = "AGENTSTORE_TEST_NAIVE_MIGRATOR"

// naiveMigrator does what services write for themselves: it checks whether the tables
// exist, and creates them if not. Nothing makes the two steps atomic.
func naiveMigrator() int {
	ctx := context.Background()
	if err := naivelyMigrate(ctx, os.Getenv(naiveVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func naivelyMigrate(ctx context.Context, databaseURL string) error {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return err
	}
	config.RuntimeParams["application_name"] = "agentstore migrate" // the gate counts these
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('sessions') IS NOT NULL").Scan(&exists); err != nil || exists {
		return err
	}
	text, err := schema.SQL(1, schema.DirectionUp)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, text)
	return err
}
