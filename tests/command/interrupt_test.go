package command

import (
	"context"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A command that waits for its input can be interrupted, and has then done nothing.
func TestInterruptedWhileItWaits(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	session := must(d.store.Sessions().Create(t.Context(), repo.NewSession{}))(t)
	for _, args := range [][]string{{"session", "import"}, {"session", "delete", session.ID.String()}} {
		ctx, interrupt := context.WithCancel(t.Context())
		command := New(ctx, t, pgtest.WithParameter(d.url, "application_name", args[1]), args...)
		stdin, err := command.StdinPipe() // it gets no input
		if err != nil {
			t.Fatal(err)
		}
		var errs strings.Builder
		command.Stdout, command.Stderr = io.Discard, &errs
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		await.For(t, "it has begun", func() bool {
			return pgtest.Value[bool](t, d.store.Pool(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database())", args[1])
		})
		time.Sleep(100 * time.Millisecond) // pace: it waits for its input, or will
		if args[1] == "import" {
			closed := syscall.SIGHUP // of a terminal that is closed
			if signal.Ignored(closed) {
				closed = syscall.SIGTERM // below nohup all processes ignore the other one
			}
			err = command.Process.Signal(closed)
		} else {
			interrupt()
		}
		if code := Exit(t, command.Wait(), command); code != 130 {
			t.Errorf("%q: code %d, %q", args, code, errs.String())
		}
		interrupt()
		_ = stdin.Close()
		if err != nil {
			t.Error(err)
		}
	}
	d.wants(session.ID.String(), "id", "session", "list")
}
