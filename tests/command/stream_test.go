package command

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// stream tail prints the parts that there are, then those that come, until the stream
// ends; stream prune removes it when it has expired.
func TestStream(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.run("stream", "prune") // builds the binary
	key := hostile[1]
	stream := must(d.store.Streams().Open(t.Context(), repo.NewStream{Key: key, Owner: hostile[2]}))(t)
	write := func() {
		data := fmt.Sprint("part ", stream.Next, " \x1b[31m")
		stream.Next = must(d.store.Streams().Append(t.Context(), stream, []byte(data)))(t)
	}
	write()
	write()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	command := New(ctx, t, d.url, "stream", "tail", key, "--json", "--contents", "--from", "1")
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	command.Stderr = &errs
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for sequence := int64(1); sequence < 6; sequence++ {
		if sequence > 1 {
			write()
		}
		if !lines.Scan() {
			t.Fatalf("no line for part %d: %v, %s", sequence, lines.Err(), errs.String())
		}
		var line struct {
			Sequence int64
			Text     string
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Sequence != sequence ||
			line.Text != fmt.Sprint("part ", sequence, " \x1b[31m") || strings.Contains(lines.Text(), "\x1b") {
			t.Fatalf("%v: %q, want part %d", err, lines.Text(), sequence)
		}
	}
	if err := d.store.Streams().Fail(t.Context(), stream, "private"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stdout)
	if code := Exit(t, command.Wait(), command); code != 1 || !strings.Contains(errs.String(), "failed") || strings.Contains(errs.String(), "private") {
		t.Errorf("the stream failed: code %d, %q", code, errs.String())
	}
	d.wants("private", "reason", "stream", "show", key)

	open := must(d.store.Streams().Open(t.Context(), repo.NewStream{Key: "open", Owner: "o"}))(t)
	waiting := New(ctx, t, d.url, "stream", "tail", "open", "--id", open.ID.String())
	if stdout, err = waiting.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	open.Next = must(d.store.Streams().Append(t.Context(), open, []byte("x")))(t)
	if lines = bufio.NewScanner(stdout); !lines.Scan() || lines.Text() != "0  1 bytes" {
		t.Errorf("got %q", lines.Text())
	}
	cancel() // as by Ctrl-C
	_, _ = io.Copy(io.Discard, stdout)
	if code := Exit(t, waiting.Wait(), waiting); code != 0 {
		t.Errorf("interrupted: code %d", code)
	}

	if err := d.store.Close(); err != nil { // it removes them by itself
		t.Fatal(err)
	}
	pgtest.Exec(t, pgtest.Connect(t, d.url), "UPDATE streams SET expires_at = now() - interval '1 minute'")
	if out := d.run("stream", "prune", "--json"); out != `{"streams":2,"parts":7}`+"\n" {
		t.Errorf("removed: %s", out)
	}
	d.refuses(1, "not found", "stream", "show", key)
}
