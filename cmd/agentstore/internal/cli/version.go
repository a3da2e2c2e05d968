package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore/schema"
)

func versionCommand(world invocation) *urfave.Command {
	return leaf{
		name: "version", summary: "print the version of this binary and of its schema, as --version does",
		run: func(_ context.Context, invocation invocation) error {
			fmt.Fprintf(invocation.stdout, "agentstore %s, schema version %d, %s\n", buildVersion(), schema.Latest(), runtime.Version())
			return nil
		},
	}.command(world)
}

// buildVersion is the module's version, or for a build from a clone one made of the
// commit.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "development"
}
