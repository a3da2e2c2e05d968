package migrate

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/command"
)

// process is a command that runs concurrently with the test.
type process struct {
	*exec.Cmd
	stdout, stderr output
}

// output is what a process has printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// agentstore starts the real command on a database.
func agentstore(t *testing.T, databaseURL string, args ...string) *process {
	t.Helper()
	return start(t, command.New(context.Background(), t, databaseURL, args...), "DATABASE_URL="+databaseURL)
}

// naive starts this test binary as the migrator of naive_test.go.
func naive(t *testing.T, databaseURL string) *process {
	t.Helper()
	return start(t, exec.Command(os.Args[0]), naiveVariable+"="+databaseURL)
}

func start(t *testing.T, cmd *exec.Cmd, env string) *process {
	t.Helper()
	p := &process{Cmd: cmd}
	p.Env = append(os.Environ(), env)
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// exit waits for the end of the process and returns its exit code.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	var failed *exec.ExitError
	if err := p.Wait(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return p.ProcessState.ExitCode()
}
