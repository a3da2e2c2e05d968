package audit

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

func openSpool(t *testing.T, path string) *Spool {
	t.Helper()
	s, err := OpenSpool(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func fillSpool(t *testing.T, path string, count int) []repo.AuditEntry {
	t.Helper()
	s := openSpool(t, path)
	var entries []repo.AuditEntry
	for i := range count {
		e := entryOf(fmt.Sprintf(`{ "i" : %d.0 }`, i))
		e.OccurredAt, e.PlanID, e.SessionID, e.Actor = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), repo.NewID(), repo.NewID(), "a"
		entries = append(entries, e)
		if _, err := s.append(entries[i:]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestSpoolRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	want := fillSpool(t, path, 10)
	s := openSpool(t, path)
	if s.Recovery.Entries != 10 || s.Recovery.TornBytes != 0 {
		t.Fatalf("recovered %+v", s.Recovery)
	}
	var got []repo.AuditEntry
	for len(got) < 10 {
		entries, ends, err := s.next(3)
		if err != nil || len(entries) == 0 {
			t.Fatal(entries, err)
		}
		got = append(got, entries...)
		if err := s.file.Done(len(entries), ends[len(ends)-1]); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 25 {
		t.Errorf("the file was not emptied: %v, %v", info, err)
	}
}

func TestSpoolRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	if err := os.WriteFile(path, []byte("something else\nentirely, and long enough"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSpool(path, 0); !errors.Is(err, ErrSpoolForeign) {
		t.Error("a file that is not a spool was opened")
	}
	if _, err := OpenSpool(filepath.Join(t.TempDir(), "no", "such"), 0); !errors.Is(err, os.ErrNotExist) {
		t.Error("a file in a missing directory was opened")
	}
	shared := filepath.Join(t.TempDir(), "spool")
	openSpool(t, shared)
	if _, err := OpenSpool(shared, 0); !errors.Is(err, ErrSpoolInUse) {
		t.Error("a file was opened twice")
	}
	small, err := OpenSpool(filepath.Join(t.TempDir(), "spool"), 200)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = small.Close() }()
	if _, err := small.append([]repo.AuditEntry{entryOf(`{"x":"` + strings.Repeat("x", 300) + `"}`)}); !errors.Is(err, ErrSpoolFull) {
		t.Error("more was spooled than there is room for")
	}
}

// If a process is killed while the database is unavailable, the next one writes every
// entry that was spooled, once.
// Guarantee: The audit trail: Entries in the spool survive a SIGKILL, and are written once.
func TestSpoolSurvivesKill(t *testing.T) {
	const variable = "AGENTSTORE_AUDIT_SPOOL"
	if path := os.Getenv(variable); path != "" {
		sink := newFake()
		sink.away = true
		spool, err := OpenSpool(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		w := newWriter(t, sink, Options{Spool: spool})
		for {
			e := entryOf(`{}`)
			if err := w.Record(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			fmt.Println("spooled", e.ID)
		}
	}
	path := filepath.Join(t.TempDir(), "spool")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSpoolSurvivesKill$")
	child.Env = append(os.Environ(), variable+"="+path)
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for told := bufio.NewScanner(output); told.Scan(); {
		if lines = append(lines, told.Text()); len(lines) == 20 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = child.Wait() // it was killed
	spool := openSpool(t, path)
	sink := newFake()
	w := newWriter(t, sink, Options{Spool: spool})
	closeWriter(t, w)
	told := 0
	for _, line := range lines {
		id, found := strings.CutPrefix(line, "spooled ")
		if !found || len(id) != 36 { // the last line may be torn
			continue
		}
		told++
		parsed, err := repo.ParseID(id)
		if err != nil || !sink.known[parsed] {
			t.Errorf("%s was spooled, but not recorded", id)
		}
	}
	if told < 20-1 || len(sink.recorded) < told {
		t.Errorf("%d were spooled, %s recorded", told, strconv.Itoa(len(sink.recorded)))
	}
	if stats := w.Stats(); stats.Written != int64(len(sink.recorded)) || stats.Spooled != 0 {
		t.Errorf("the stats are %+v", stats)
	}
}
