package command

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// A command that waits for its input can be interrupted, and has then done nothing.
func TestInterruptedWhileItWaits(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.run("session", "list") // builds the binary
	session := must(d.store.Sessions().Create(t.Context(), repo.NewSession{}))(t)
	for _, args := range [][]string{{"session", "import"}, {"session", "delete", session.ID.String()}} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		command := New(ctx, t, d.url, args...)
		stdin, err := command.StdinPipe() // nobody writes to it
		if err != nil {
			t.Fatal(err)
		}
		var errs strings.Builder
		command.Stdout, command.Stderr = io.Discard, &errs
		begin := time.Now()
		code := Exit(t, command.Run(), command)
		cancel()
		_ = stdin.Close()
		if took := time.Since(begin); code != 130 || took > 20*time.Second || took < 3*time.Second {
			t.Errorf("%q: code %d after %s, %q", args, code, took, errs.String())
		}
	}
	d.wants(session.ID.String(), "id", "session", "list")
}
