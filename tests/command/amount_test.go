package command

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
)

// memoryBound is how much more memory a list of all rows may take than one of a
// single row.
const memoryBound = 48 << 10 // KiB

// peak runs a command, gives its output to fn and returns its largest size in
// KiB.
func (d database) peak(fn func(stdout io.Reader), args ...string) int64 {
	d.Helper()
	command := New(d.Context(), d, d.url, args...)
	stdout, err := command.StdoutPipe()
	if err != nil {
		d.Fatal(err)
	}
	if err := command.Start(); err != nil {
		d.Fatal(err)
	}
	fn(stdout)
	if code := Exit(d, command.Wait(), command); code != 0 {
		d.Fatalf("%q: code %d", args, code)
	}
	return command.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
}

// Lists of many rows take the memory of few, have their first row at once, and
// each row once.
func TestManyRows(t *testing.T) {
	rows := 1_000_000
	if testing.Short() || raced() { // the race detector makes a million take minutes
		rows = 100_000
	}
	// Not parallel: it measures times.
	d := newDatabase(t)
	for _, sql := range []string{
		`INSERT INTO sessions (id, actor, metadata, created_at, updated_at)
		 SELECT gen_random_uuid(), 'actor', '{"note": "some words of metadata"}', at, at
		 FROM generate_series(1, $1::int) n, LATERAL (SELECT timestamptz '2026-01-01' + n * interval '1 millisecond') AS t (at)`,
		`INSERT INTO session_counters (session_id, updated_at) SELECT id, created_at FROM sessions`,
		`ANALYZE sessions, session_counters`,
	} {
		var args []any
		if strings.Contains(sql, "$1") {
			args = append(args, rows)
		}
		if _, err := d.store.Pool().Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	one := d.peak(func(stdout io.Reader) { _, _ = io.Copy(io.Discard, stdout) }, "session", "list", "--limit", "1")
	for _, form := range []string{"--json", "--details"} {
		var first time.Duration
		begin, count, last := time.Now(), 0, "9999"
		all := d.peak(func(stdout io.Reader) {
			scanner := bufio.NewScanner(stdout)
			for scanner.Scan() {
				if count++; count == 1 {
					first = time.Since(begin)
				}
				if form != "--json" {
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
		whole := time.Since(begin)
		if form == "--details" {
			count-- // the heading
		}
		if count != rows {
			t.Errorf("%s: %d rows", form, count)
		}
		if all-one > memoryBound {
			t.Errorf("%s: %d KiB, where one row takes %d", form, all, one)
		}
		if first > whole/4 {
			t.Errorf("%s: the first row came after %s, all after %s", form, first, whole)
		}
		t.Logf("%s: first row %s, all %s, %d KiB; one row takes %d KiB", form, first.Round(time.Millisecond), whole.Round(time.Millisecond), all, one)
	}

	// Who has seen enough ends the command, without a word.
	command := New(t.Context(), t, d.url, "session", "list")
	var errs strings.Builder
	command.Stderr = &errs
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
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
	t.Logf("| head: %s", time.Since(begin).Round(time.Millisecond))
}
