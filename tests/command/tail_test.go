package command

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// session tail prints the last messages, then what comes, until it is interrupted or the
// session is deleted.
func TestSessionTail(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.run("session", "list") // builds the binary
	session := must(d.store.Sessions().Create(t.Context(), repo.NewSession{Key: "k"}))(t)
	write := func(content string) {
		must(d.store.Sessions().Append(t.Context(), session.ID, repo.NewMessage{Role: repo.RoleUser, Content: content}))(t)
	}
	for range 15 {
		write("before")
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	command := New(ctx, t, d.url, "session", "tail", "--key", "k", "--json", "--contents")
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for sequence := range int64(20) {
		if sequence < 5 {
			continue // of the first 15 messages, the last ten are printed
		}
		if sequence >= 15 {
			write("after\x1b[31m")
		}
		if !lines.Scan() {
			t.Fatalf("no line for message %d: %v", sequence, lines.Err())
		}
		var line struct {
			Sequence int64
			Content  string
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Sequence != sequence || strings.Contains(lines.Text(), "\x1b") {
			t.Fatalf("%v: %q, want message %d", err, lines.Text(), sequence)
		}
	}
	interrupt()
	_, _ = io.Copy(io.Discard, stdout)
	if code := Exit(t, command.Wait(), command); code != 0 {
		t.Errorf("interrupted: code %d", code)
	}

	deleted := New(t.Context(), t, d.url, "session", "tail", session.ID.String(), "--last", "1")
	var errs strings.Builder
	deleted.Stderr = &errs
	if stdout, err = deleted.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := deleted.Start(); err != nil {
		t.Fatal(err)
	}
	if lines = bufio.NewScanner(stdout); !lines.Scan() || !strings.HasPrefix(lines.Text(), "19  user  ") {
		t.Errorf("got %q", lines.Text())
	}
	must(d.store.Sessions().Delete(t.Context(), session.ID))(t)
	_, _ = io.Copy(io.Discard, stdout)
	if code := Exit(t, deleted.Wait(), deleted); code != 1 || !strings.Contains(errs.String(), "was deleted") {
		t.Errorf("the session was deleted: code %d, %q", code, errs.String())
	}
}
