package pgtest

import (
	"context"
	"fmt"
	"os"
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

// Main runs a package's tests and returns the exit code: TestMain's body. It
// stops the server afterwards, also when the process is interrupted, and fails
// when a goroutine is left that neither we nor the package ignore.
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

// ignored are goroutines that others own and do not end.
func ignored() []goleak.Option {
	return []goleak.Option{
		// The Docker client's idle connections.
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"),
		goleak.IgnoreTopFunction("os/signal.loop"),
		goleak.IgnoreTopFunction("os/signal.signal_recv"),
	}
}

// Shared returns this process's server, which it starts the first time.
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
	run.once.Do(func() { run.err = errNoServer }) // none is started from now on
	if run.server != nil {
		dropTemplate(run.server)
		run.server.Stop()
		run.server = nil
	}
}
