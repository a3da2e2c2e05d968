//go:build !race

package command

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// memoryBound is how much more memory a list of all rows may need than a list of one
// row.
const memoryBound = 48 << 10 // KiB

// peak runs a command, passes its output to fn and returns its maximum memory in KiB.
func (d database) peak(fn func(stdout io.Reader), args ...string) int64 {
	d.Helper()
	command := New(d.Context(), d, d.url, args...)
	stdout, err := command.StdoutPipe()
	if err != nil {
		d.Fatal(err)
	}
	// What counts is what the command holds, not what the collector, which a busy machine
	// delays, has not freed yet.
	command.Env = append(command.Env, "GOGC=20")
	if err := command.Start(); err != nil {
		d.Fatal(err)
	}
	fn(stdout)
	if code := Exit(d, command.Wait(), command); code != 0 {
		d.Fatalf("%q: code %d", args, code)
	}
	return command.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
}

// Lists of many rows need no more memory than lists of few, so that they print the first
// before they have the last, and print each row once.
func TestAmountOfRows(t *testing.T) {
	rows, words := pgtest.Choose(200_000, 20_000), pgtest.Choose(1, 120) // much more than memoryBound together
	d := newDatabase(t)
	for _, sql := range []string{
		`INSERT INTO sessions (id, actor, metadata, created_at, updated_at)
		 SELECT gen_random_uuid(), 'actor', jsonb_build_object('note', repeat('some words of metadata ', ` + strconv.Itoa(words) + `)), at, at
		 FROM generate_series(1, ` + strconv.Itoa(rows) + `) n, LATERAL (SELECT timestamptz '2026-01-01' + n * interval '1 millisecond') AS t (at)`,
		`INSERT INTO session_counters (session_id, updated_at) SELECT id, created_at FROM sessions`,
		`ANALYZE sessions, session_counters`,
	} {
		pgtest.Exec(t, d.store.Pool(), sql)
	}
	one := d.peak(func(stdout io.Reader) { _, _ = io.Copy(io.Discard, stdout) }, "session", "list", "--limit", "1")
	for _, form := range []string{"--json", "--details"} {
		count, last := 0, "9999"
		all := d.peak(func(stdout io.Reader) {
			scanner := bufio.NewScanner(stdout)
			for scanner.Scan() {
				if count++; form != "--json" {
					continue
				}
				var line struct {
					CreatedAt string `json:"created_at"`
				}
				if err := json.Unmarshal(scanner.Bytes(), &line); err != nil || line.CreatedAt >= last {
					t.Fatalf("row %d of %s after %s: %v", count, line.CreatedAt, last, err)
				}
				last = line.CreatedAt
			}
		}, "session", "list", form)
		if form == "--details" {
			count-- // without the heading
		}
		if count != rows {
			t.Errorf("%s: %d rows", form, count)
		}
		if all-one > memoryBound {
			t.Errorf("%s: %d KiB, but %d for one row", form, all, one)
		}
		t.Logf("%s: %d KiB; one row takes %d KiB", form, all, one)
	}

	// When the reader closes the output, the command ends silently.
	command := New(t.Context(), t, d.url, "session", "list")
	var errs strings.Builder
	command.Stderr = &errs
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = stdout.Close()
	if code := Exit(t, command.Wait(), command); code != 141 || errs.Len() != 0 {
		t.Errorf("after its reader had gone: code %d, %q", code, errs.String())
	}
}
