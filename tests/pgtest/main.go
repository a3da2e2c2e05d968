package pgtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// run is this process's server, started when the first test asks for it.
var run struct {
	once   sync.Once
	server *Server
	err    error
}

// Main runs a package's tests and returns the exit code. It is the body of TestMain. It
// stops the server afterwards, also when the process is interrupted, and fails if
// goroutines are left, except those that others ignores.
func Main(m *testing.M, others ...goleak.Option) int {
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	done := make(chan struct{})
	go func() {
		select {
		case <-interrupted.Done():
			stopServer()
			os.Exit(1)
		case <-done:
		}
	}()
	code := m.Run()
	close(done)
	stopServer()
	stop()
	if code != 0 {
		return code
	}
	if err := goleak.Find(append(ignored(), others...)...); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return 1
	}
	return 0
}

// Again returns a command that runs this test binary in another process, with the task
// as JSON in an environment variable, which TestMain looks for.
func Again(ctx context.Context, variable string, task any) *exec.Cmd {
	encoded, err := json.Marshal(task)
	if err != nil {
		panic("pgtest: a task is not JSON: " + err.Error())
	}
	binary, err := os.Executable()
	if err != nil {
		panic("pgtest: " + err.Error())
	}
	command := exec.CommandContext(ctx, binary)
	command.Env = append(os.Environ(), variable+"="+string(encoded))
	return command
}

// ignored returns the goroutines of other packages that do not end.
func ignored() []goleak.Option {
	return []goleak.Option{
		// The first two are the Docker client's idle connections.
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"),
		goleak.IgnoreTopFunction("os/signal.loop"),
		goleak.IgnoreTopFunction("os/signal.signal_recv"),
	}
}

// Shared returns this process's server. The first call starts it.
func Shared(t testing.TB) *Server {
	t.Helper()
	run.once.Do(func() {
		run.server, run.err = Start(context.Background(), Options{Logf: func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, format+"\n", args...)
		}})
	})
	if run.err != nil {
		t.Fatal(run.err)
	}
	return run.server
}

func stopServer() {
	for _, c := range kept {
		if err := c.remove(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest: remove a cluster:", err)
		}
	}
	kept = nil
	run.once.Do(func() { run.err = errNoServer }) // start none from now on
	if run.server != nil {
		dropTemplates(run.server)
		run.server.Stop()
		run.server = nil
	}
}
