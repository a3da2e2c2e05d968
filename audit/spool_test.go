package audit

import (
	"encoding/binary"
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
		if err := s.append(entries[i:]); err != nil {
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
		entries, end, err := s.next(3)
		if err != nil || len(entries) == 0 {
			t.Fatal(entries, err)
		}
		got = append(got, entries...)
		if err := s.done(len(entries), end); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(spoolHeader)) {
		t.Errorf("the file was not emptied: %v, %v", info, err)
	}
}

// Cut off anywhere, the file gives the records that are whole.
func TestSpoolTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	fillSpool(t, path, 3)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var ends []int
	for at := len(spoolHeader); at < len(whole); {
		at += recordHeader + int(binary.BigEndian.Uint32(whole[at:]))
		ends = append(ends, at)
	}
	for cut := range len(whole) + 1 {
		torn := filepath.Join(t.TempDir(), "torn")
		if err := os.WriteFile(torn, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		for _, end := range ends {
			if cut >= end {
				want++
			}
		}
		s, err := OpenSpool(torn, 0)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if s.Recovery.Entries != want || len(s.Recovery.Corrupt) != 0 {
			t.Errorf("cut at %d: recovered %+v, want %d", cut, s.Recovery, want)
		}
		if err := s.append([]repo.AuditEntry{entryOf(`{}`)}); err != nil { // it goes on behind
			t.Fatal(err)
		}
		entries, _, err := s.next(10)
		if err != nil || int64(len(entries)) != want+1 {
			t.Errorf("cut at %d: then %d entries, %v", cut, len(entries), err)
		}
		_ = s.Close()
	}
}

// A record that was changed is told of; the others are there, and so is a copy.
func TestSpoolCorrupt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	fillSpool(t, path, 3)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second := len(spoolHeader) + recordHeader + int(binary.BigEndian.Uint32(raw[len(spoolHeader):]))
	raw[second+recordHeader+5] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openSpool(t, path)
	if s.Recovery.Entries != 2 || fmt.Sprint(s.Recovery.Corrupt) != fmt.Sprint([]int64{int64(second)}) {
		t.Errorf("recovered %+v", s.Recovery)
	}
	if saved, err := os.ReadFile(s.Recovery.Saved); err != nil || string(saved) != string(raw) {
		t.Errorf("the copy is another one, %v", err)
	}
	if entries, end, err := s.next(10); err != nil || len(entries) != 2 || end != s.size {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

func TestSpoolRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	if err := os.WriteFile(path, []byte("something else\nentirely, and long enough"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSpool(path, 0); err == nil {
		t.Error("a file that is no spool was opened")
	}
	if _, err := OpenSpool(filepath.Join(t.TempDir(), "no", "such"), 0); err == nil {
		t.Error("a file in no directory was opened")
	}
	shared := filepath.Join(t.TempDir(), "spool")
	openSpool(t, shared)
	if _, err := OpenSpool(shared, 0); err == nil {
		t.Error("a file was opened twice")
	}
	small, err := OpenSpool(filepath.Join(t.TempDir(), "spool"), 200)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = small.Close() }()
	if err := small.append([]repo.AuditEntry{entryOf(`{"x":"` + strings.Repeat("x", 300) + `"}`)}); err == nil {
		t.Error("more was spooled than there is room for")
	}
}

// A process that is killed while the database is away: what it was told is
// accepted and spooled is written by the next one, once.
func TestSpoolSurvivesKill(t *testing.T) {
	const variable = "AGENTSTORE_AUDIT_SPOOL"
	if path := os.Getenv(variable); path != "" {
		sink := newFake()
		sink.fail = func(int, []repo.AuditEntry) (error, error) { return repo.ErrUnavailable, nil }
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
	var output strings.Builder
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSpoolSurvivesKill$", "-test.timeout=60s")
	child.Env = append(os.Environ(), variable+"="+path)
	child.Stdout = &output
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	lines := strings.Split(strings.TrimSuffix(output.String(), "\n"), "\n")
	spool := openSpool(t, path)
	sink := newFake()
	w := newWriter(t, sink, Options{Spool: spool})
	closeWriter(t, w)
	told := 0
	for _, line := range lines {
		id, found := strings.CutPrefix(line, "spooled ")
		if !found || len(id) != 26 { // the last line may be torn
			continue
		}
		told++
		parsed, err := repo.ParseID(id)
		if err != nil || !sink.known[parsed] {
			t.Errorf("%s was spooled, and not recorded", id)
		}
	}
	if told < 5 || len(sink.recorded) < told {
		t.Errorf("%d were told, %s recorded", told, strconv.Itoa(len(sink.recorded)))
	}
	if stats := w.Stats(); stats.Written != int64(len(sink.recorded)) || stats.Spooled != 0 {
		t.Errorf("the stats are %+v", stats)
	}
}
