// Package command runs the real agentstore command for tests: what a script
// sees, its exit code included.
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
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// path is the binary's, which is built once for a whole test process, with the
// race detector where the tests have it.
var path = sync.OnceValues(func() (string, error) {
	var err error
	if directory, err = os.MkdirTemp("", "agentstore-command-"); err != nil {
		return "", err
	}
	path := filepath.Join(directory, "agentstore")
	args := []string{"build", "-o", path}
	if raced() {
		args = append(args, "-race")
	}
	output, err := exec.Command("go", append(args, "github.com/seed-df90f812/agentstore/cmd/agentstore")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the command: %w: %s", err, output)
	}
	return path, nil
})

var directory string

func raced() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, setting := range info.Settings {
		if setting.Key == "-race" {
			return setting.Value == "true"
		}
	}
	return false
}

// Main is pgtest.Main for a package whose tests run the command: it removes what
// was built.
func Main(m *testing.M) int {
	code := pgtest.Main(m)
	if directory != "" {
		_ = os.RemoveAll(directory)
	}
	return code
}

// New is the command with these arguments, not started yet. Its only database
// is databaseURL, in the environment; there is none where that is empty. It is
// interrupted when ctx ends, as Ctrl-C does.
func New(ctx context.Context, t testing.TB, databaseURL string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := path()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(ctx, path, args...)
	command.Env = append(os.Environ(), "DATABASE_URL="+databaseURL)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 30 * time.Second
	return command
}

// Run runs the command to its end.
func Run(ctx context.Context, t testing.TB, databaseURL string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return RunWith(ctx, t, nil, databaseURL, args...)
}

// RunWith is Run with something to read on stdin.
func RunWith(ctx context.Context, t testing.TB, stdin io.Reader, databaseURL string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	command := New(ctx, t, databaseURL, args...)
	command.Stdin, command.Stdout, command.Stderr = stdin, &out, &errs
	return Exit(t, command.Run(), command), out.String(), errs.String()
}

// Exit is the exit code of a command that ended with err.
func Exit(t testing.TB, err error, command *exec.Cmd) int {
	t.Helper()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed && command.ProcessState == nil {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode()
}
