// Package command runs the real agentstore command for tests, as a script would,
// including its exit code.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// path returns the path of the binary, which is built once for each test process. It is
// built without the race detector, with which starting a process takes longer than most
// commands: the packages that it consists of have tests that run with it.
var path = sync.OnceValues(func() (string, error) {
	var err error
	if directory, err = os.MkdirTemp("", "agentstore-command-"); err != nil {
		return "", err
	}
	path := filepath.Join(directory, "agentstore")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = "../../cmd/agentstore" // a module of its own, which the one that the test is in need not know
	output, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the command: %w: %s", err, output)
	}
	return path, nil
})

var directory string

// Main is like pgtest.Main, for packages whose tests run the command. It removes the
// binary.
func Main(m *testing.M) int {
	code := pgtest.Main(m)
	if directory != "" {
		_ = os.RemoveAll(directory)
	}
	return code
}

// New returns the command with these arguments, not started yet. Its environment has
// databaseURL, and no other database; if databaseURL is empty it has none. The
// command is interrupted, as by Ctrl-C, when ctx ends.
func New(ctx context.Context, t testing.TB, databaseURL string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := path()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(ctx, path, args...)
	command.Env = append(os.Environ(), "DATABASE_URL="+databaseURL)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = time.Until(await.End(t))
	return command
}

// Run runs the command.
func Run(ctx context.Context, t testing.TB, databaseURL string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return RunWith(ctx, t, nil, databaseURL, args...)
}

// RunWith is like Run, with an input for stdin.
func RunWith(ctx context.Context, t testing.TB, stdin io.Reader, databaseURL string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	command := New(ctx, t, databaseURL, args...)
	command.Stdin, command.Stdout, command.Stderr = stdin, &out, &errs
	return Exit(t, command.Run(), command), out.String(), errs.String()
}

// Exit returns the exit code of a command that ended with err.
func Exit(t testing.TB, err error, command *exec.Cmd) int {
	t.Helper()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed && command.ProcessState == nil {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode()
}
