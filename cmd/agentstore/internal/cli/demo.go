package cli

import (
	"context"
	"errors"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore/cmd/agentstore/internal/demo"
)

const demoHelp = `Eight writers append to one session while a reader follows it; then a naive
implementation does the same. This takes some seconds, in a new schema, whatever
--schema says, which is dropped at the end. Without a database it uses the store in
memory.`

func demoCommand(world invocation) *urfave.Command {
	var databaseURL string
	return leaf{
		name: "demo", summary: "demonstrate concurrent appends, in a few seconds", more: demoHelp,
		flags: []urfave.Flag{databaseFlag(&databaseURL)},
		run: func(ctx context.Context, invocation invocation) error {
			databaseURL = invocation.database(databaseURL)
			if databaseURL == "" {
				return demo.RunInMemory(ctx, invocation.stdout)
			}
			config, err := poolConfig(databaseURL)
			if err != nil {
				return err
			}
			if err = demo.Run(ctx, config, invocation.stdout); err != nil && ctx.Err() != nil {
				return errors.New("interrupted")
			}
			return err
		},
	}.command(world)
}
