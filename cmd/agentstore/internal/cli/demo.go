package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore/cmd/agentstore/internal/demo"
	"github.com/seed-df90f812/agentstore/internal/pgurl"
)

const demoHelp = `Eight writers append to one session while a reader follows it, and the naive way
does the same beside it. It takes some seconds, works in a schema of its own and
drops it at the end. Without a database it shows the store in memory.`

func demoCommand(world invocation) *urfave.Command {
	var databaseURL string
	return leaf{
		name: "demo", summary: "show the main job on a database, in a few seconds", more: demoHelp,
		flags: []urfave.Flag{databaseFlag(&databaseURL)},
		run: func(ctx context.Context, invocation invocation) error {
			return runDemo(ctx, invocation, databaseURL)
		},
	}.command(world)
}

func runDemo(ctx context.Context, invocation invocation, databaseURL string) error {
	if databaseURL == "" {
		databaseURL = invocation.env("DATABASE_URL")
	}
	if databaseURL == "" {
		return demo.RunInMemory(ctx, invocation.stdout)
	}
	if err := pgurl.Check(databaseURL); err != nil {
		return usageError{text: fmt.Sprintf("the database URL %s", err)}
	}
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil { // its message quotes the URL
		return usageError{text: "the database URL has a malformed pool parameter"}
	}
	if err := demo.Run(ctx, config, invocation.stdout); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return err
	}
	return nil
}
