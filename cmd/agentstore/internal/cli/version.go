package cli

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/seed-df90f812/agentstore/schema"
)

func version(_ context.Context, invocation invocation) error {
	flags := flag.NewFlagSet("version", flag.ContinueOnError)
	if err := parse(flags, invocation.args, "agentstore version prints the version of this binary and of its schema.\n"); err != nil {
		return err
	}
	fmt.Fprintf(invocation.stdout, "agentstore %s, schema version %d, %s\n", buildVersion(), schema.Latest(), runtime.Version())
	return nil
}

// buildVersion is the module's version, or the commit of a build from a clone.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return "development"
}
