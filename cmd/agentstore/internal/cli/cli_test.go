package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/schema"
)

// run executes the command with nothing in its environment.
func run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Execute(context.Background(), args, strings.NewReader(""), &out, &errs, func(string) string { return "" })
	return code, out.String(), errs.String()
}

func TestHelpNamesEveryCommandAndExitCode(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"--help"}, {"-h"}, {"help", "help"}} {
		code, stdout, stderr := run(args...)
		if code != exitOK || stderr != "" {
			t.Errorf("%v: code %d, stderr %q", args, code, stderr)
		}
		for _, command := range commands(invocation{}) {
			if !strings.Contains(stdout, "  "+command.Name) {
				t.Errorf("%v does not name %s", args, command.Name)
			}
		}
		for _, code := range []int{exitOK, exitFailed, exitUsage, exitBehind, exitAhead, exitLocked, exitDataLoss, exitBroken, exitFindings, exitInterrupted, exitPipe} {
			if !strings.Contains(stdout, fmt.Sprintf("\n  %-4d", code)) {
				t.Errorf("%v does not document exit code %d", args, code)
			}
		}
	}
}

// The table of docs/command.md has every command. In a row, a name without the name of
// its group is of the group of the first.
func TestDocumentNamesEveryCommand(t *testing.T) {
	names := map[string]bool{}
	for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile("../../../../docs/command.md")))) {
		row, found := strings.CutPrefix(line, "| ")
		if !found {
			continue
		}
		cell, _, _ := strings.Cut(row, " | ")
		group := ""
		for i, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			words := append(strings.Fields(quoted[1]), "")
			switch {
			case i == 0 && words[1] != "":
				group = words[0]
			case words[0] != group:
				words = []string{group, words[0]}
			}
			names[strings.TrimSpace(strings.Join(words[:2], " "))] = true
		}
	}
	for _, command := range commands(invocation{}) {
		if len(command.Commands) == 0 && command.Name != "help" && !names[command.Name] {
			t.Errorf("%s is missing", command.Name)
		}
		for _, below := range command.Commands {
			if name := command.Name + " " + below.Name; !names[name] {
				t.Errorf("%s is missing", name)
			}
		}
	}
}

func TestEveryVerbHasHelp(t *testing.T) {
	for _, verb := range verbs() {
		for _, args := range [][]string{{"migrate", verb.name, "--help"}, {"help", "migrate", verb.name}} {
			code, stdout, stderr := run(args...)
			if code != exitOK || stderr != "" || !strings.Contains(stdout, verb.summary) {
				t.Errorf("%v: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
			}
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"nonsense"},
		{"migrate"},
		{"migrate", "nonsense"},
		{"migrate", "up"}, // no database
		{"migrate", "up", "more"},
		{"migrate", "up", "--nonsense"},
		{"migrate", "up", "--database-url", "mysql://host/db"},
		{"migrate", "up", "--database-url", "postgres://host/db", "--steps", "1", "--to", "1"},
		{"migrate", "down", "--database-url", "postgres://host/db", "--steps", "-1"},
		{"migrate", "down", "--database-url", "postgres://host/db", "--to", "-7"},
		{"migrate", "down", "--database-url", "postgres://host/db", "--to", "-1"},
		{"migrate", "up", "--database-url", "postgres://host/db", "--to", "-1"},
		{"migrate", "up", "--database-url", "postgres://host/db", "--lock-timeout", "-1s"},
		{"migrate", "status", "--allow-data-loss"},
		{"migrate", "sql", "--version", "9999"},
		{"version", "more"},
		{"bench"}, // no database
		{"bench", "--database-url", "mysql://host/db"},
		{"bench", "--database-url", "postgres://host/db", "--workload", "nonsense"},
		{"bench", "--database-url", "postgres://host/db", "--rounds", "0"},
		{"bench", "--database-url", "postgres://host/db", "--duration", "1us"},
	} {
		code, stdout, stderr := run(args...)
		if code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "agentstore: ") {
			t.Errorf("%v: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestNoOutputHoldsAPassword(t *testing.T) {
	const databaseURL = `postgres://user:hu"sh hush@host/db`
	for _, args := range [][]string{
		{databaseURL},
		{"migrate", databaseURL},
		{"migrate", "up", databaseURL},
		{"migrate", "up", "--steps", databaseURL},
		{"migrate", "up", "--database-url", databaseURL + ":x"},
		{"migrate", "up", "--json", "--database-url", "postgres://user:1/hush@127.0.0.1:1/db"},
		{"migrate", "up", "--to", "host=h password = hush"},
		{"help", databaseURL},
	} {
		_, stdout, stderr := run(args...)
		if strings.Contains(stdout+stderr, "hush") {
			t.Errorf("%v: stdout %q, stderr %q", args, stdout, stderr)
		}
	}
}

// The error for a database URL that cannot be used says what is wrong with it.
func TestWrongDatabaseURL(t *testing.T) {
	for databaseURL, want := range map[string]string{
		"foo":                                  "is malformed: expected postgres://user:password@host:port/database",
		"postgres://u:hush@h:port/d":           "is malformed: expected postgres://user:password@host:port/database",
		"mysql://u:hush@h/d":                   "has a scheme other than postgres",
		"postgres://u:hu@sh@h/d":               "has an @, / or # in the user or password",
		"postgres://u@h/d?pool_max_conns=hush": "has a malformed pool parameter",
	} {
		for _, command := range []string{"session list", "audit verify", "bench", "demo", "migrate status"} {
			if command == "migrate status" && strings.Contains(databaseURL, "pool_") {
				continue // the migrator has no pool
			}
			code, stdout, stderr := run(append(strings.Fields(command), "--database-url", databaseURL)...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) || strings.Contains(stderr, "sh@h") || strings.Contains(stderr, "hush") {
				t.Errorf("%s, %s: code %d, %q, %q", command, databaseURL, code, stdout, stderr)
			}
		}
	}
}

// The name of the command is printed once.
func TestUnavailable(t *testing.T) {
	code, _, stderr := run("session", "list", "--database-url", "postgres://127.0.0.1:1/d?connect_timeout=1")
	if code != exitFailed || !strings.HasPrefix(stderr, "agentstore: open: ") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

func TestListAndSQLNeedNoDatabase(t *testing.T) {
	latest := schema.List()[len(schema.List())-1].Name
	code, stdout, _ := run("migrate", "list")
	if code != exitOK || !strings.HasSuffix(stdout, latest+"\n") {
		t.Errorf("list: code %d, %q", code, stdout)
	}
	code, stdout, _ = run("migrate", "list", "--json")
	if code != exitOK || !strings.Contains(stdout, `{"version":1,"name":"0001_sessions"}`) {
		t.Errorf("list --json: code %d, %q", code, stdout)
	}
	code, stdout, _ = run("migrate", "sql", "--version", "1")
	if code != exitOK || !strings.Contains(stdout, "CREATE TABLE sessions") {
		t.Errorf("sql: code %d, %q", code, stdout)
	}
	code, stdout, _ = run("migrate", "sql", "--down")
	if code != exitOK || !strings.Contains(stdout, "DROP TABLE ") || !strings.Contains(stdout, ", sessions;") {
		t.Errorf("sql --down: code %d, %q", code, stdout)
	}
}

// The SQL of a version does not record that it is applied.
func TestSQLIsToBeRead(t *testing.T) {
	code, stdout, _ := run("migrate", "sql", "--help")
	if code != exitOK || !strings.Contains(stdout, "agentstore migrate up runs") || strings.Contains(stdout, "| psql") {
		t.Errorf("code %d, %q", code, stdout)
	}
}

func TestJSONFailureIsOneObject(t *testing.T) {
	code, stdout, _ := run("migrate", "status", "--json")
	if code != exitUsage || !strings.HasPrefix(stdout, `{"error":"`) || strings.Count(stdout, "\n") != 1 {
		t.Errorf("code %d, stdout %q", code, stdout)
	}
}

func TestVersion(t *testing.T) {
	want := fmt.Sprintf("schema version %d", schema.Latest())
	for _, arg := range []string{"version", "--version"} {
		code, stdout, _ := run(arg)
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("%s: code %d, stdout %q", arg, code, stdout)
		}
	}
}

func TestExitCodes(t *testing.T) {
	interrupted, cancel := context.WithCancel(context.Background())
	cancel()
	for _, test := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{context.Background(), nil, exitOK},
		{interrupted, nil, exitOK},
		{interrupted, errors.New("x"), exitInterrupted},
		{context.Background(), errors.New("x"), exitFailed},
		{context.Background(), &schema.BehindError{}, exitBehind},
		{context.Background(), &schema.AheadError{}, exitAhead},
		{context.Background(), &schema.LockedError{}, exitLocked},
		{context.Background(), reportedError{&schema.StepError{Err: schema.ErrDataLoss}}, exitDataLoss},
		{context.Background(), fmt.Errorf("x: %w", schema.ErrURL), exitUsage},
		{context.Background(), &schema.UnknownVersionError{Version: 99}, exitUsage},
		{context.Background(), &schema.UnknownVersionError{Version: 99, Applied: true}, exitFailed},
	} {
		if got := exitCode(test.ctx, test.err); got != test.want {
			t.Errorf("%v: %d, want %d", test.err, got, test.want)
		}
	}
}
