package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// A flag that is given, but empty, is not as if it were left out: with an empty variable of a
// script, everything would be shown or removed, and nothing signed or compared.
func TestEmptyFlags(t *testing.T) {
	flags := 0
	var try func(path []string, command *urfave.Command)
	try = func(path []string, command *urfave.Command) {
		for _, flag := range command.Flags {
			name := flag.Names()[0]
			flags++
			empty := [][]string{{"--" + name + "="}}
			if _, isSwitch := flag.(*urfave.BoolFlag); !isSwitch {
				empty = append(empty, []string{"--" + name, ""})
			}
			for _, given := range empty {
				code, stdout, stderr := run(slices.Concat(path, given)...)
				if code != exitUsage || stdout != "" || !strings.Contains(stderr, "--"+name) {
					t.Errorf("%s %q: code %d, %q, %q", strings.Join(path, " "), given, code, stdout, stderr)
				}
			}
		}
		for _, below := range command.Commands {
			try(append(slices.Clone(path), below.Name), below)
		}
	}
	for _, command := range root(invocation{env: func(string) string { return "" }}).Commands {
		try([]string{command.Name}, command)
	}
	if flags < 100 {
		t.Errorf("%d flags were tried", flags)
	}
}

// Nothing is removed or shown when the list of what to remove or show is empty.
func TestEmptyTypes(t *testing.T) {
	d := newDatabase(t)
	if err := d.store.Audit().Record(t.Context(), repo.AuditEntry{Type: audit.EventToolInvoked}); err != nil {
		t.Fatal(err)
	}
	for _, types := range []string{"", ",", "tool_invoked,"} {
		d.refuses(exitUsage, "--types", "audit", "prune", "--before", "2100-01-01", "--types", types)
	}
	_, err := d.store.AuditLog().Prune(t.Context(), auditlog.Prune{Before: time.Now(), Types: []string{}})
	if err == nil || !strings.Contains(err.Error(), "types") {
		t.Errorf("a prune of no types: %v", err)
	}
	d.refuses(exitUsage, "--namespace is empty", "inspect", "--namespace", "")
}
