package audit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Fake time: the tests with times run in bubbles of synctest.

// spoolOf writes a spool with entries that have these details, as a writer leaves it
// while its database is unavailable.
func spoolOf(t *testing.T, path string, details ...string) []repo.AuditEntry {
	t.Helper()
	spool, err := OpenSpool(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	sink := newFake()
	sink.away = true
	w := newWriter(t, sink, Options{Spool: spool, MinBackoff: time.Hour, MaxBackoff: time.Hour})
	var entries []repo.AuditEntry
	for _, d := range details {
		e := entryOf(d)
		entries = append(entries, e)
		if err := w.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	closeWriter(t, w)
	if stats := w.Stats(); stats.Spooled != int64(len(details)) {
		t.Fatalf("the stats are %+v", stats)
	}
	return entries
}

// drained opens a spool and writes its entries to a sink.
func drained(t *testing.T, path string) (*fakeSink, SpoolRecovery) {
	t.Helper()
	spool, err := OpenSpool(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	recovery := spool.Recovery
	sink := newFake()
	w := newWriter(t, sink, Options{Spool: spool})
	closeWriter(t, w)
	if stats := w.Stats(); stats.Spooled != 0 || stats.Accepted != recovery.Entries {
		t.Errorf("recovered %+v, but the stats are %+v", recovery, stats)
	}
	return sink, recovery
}

// places returns where each record of a spool's file begins, and where the file ends.
func places(raw []byte) []int {
	at := strings.IndexByte(string(raw), '\n') + 1
	starts := []int{at}
	for at < len(raw) {
		at += 8 + int(binary.BigEndian.Uint32(raw[at:]))
		starts = append(starts, at)
	}
	return starts
}

func fewEntries() []string {
	return []string{
		`{}`, `{"a":"` + strings.Repeat("b", 40) + `"}`, `{"c":[1,2,3]}`, `{"d":"é\u0001\n"}`, `{"e":"{\"f\":1}"}`,
	}
}

// quickDirectory returns a directory in memory if the system has one: the tests make
// thousands of files.
func quickDirectory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "agentstore-spool")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Whichever bit of a file is flipped, all records but the one with that bit are
// recovered, and a copy of the damaged file is kept.
// Guarantee: The audit trail: Every intact record of a damaged spool is recovered.
func TestSpoolEveryBit(t *testing.T) {
	dir := quickDirectory(t)
	path := filepath.Join(dir, "spool")
	entries := spoolOf(t, path, fewEntries()...)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	starts := places(whole)
	lost, uncopied, refused := 0, 0, 0
	for at := range whole {
		for bit := range 8 {
			raw := append([]byte(nil), whole...)
			raw[at] ^= 1 << bit
			damaged := filepath.Join(dir, fmt.Sprintf("damaged-%d-%d", at, bit))
			if err := os.WriteFile(damaged, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			spool, err := OpenSpool(damaged, 0)
			if err != nil {
				refused++
				continue
			}
			recovery := spool.Recovery
			if err := spool.Close(); err != nil {
				t.Fatal(err)
			}
			if saved, err := os.ReadFile(recovery.Saved); err != nil || string(saved) != string(raw) {
				uncopied++
			}
			if at%31 == 0 || recovery.Entries < int64(len(entries)-1) { // draining each would take long
				sink, _ := drained(t, damaged)
				for i, e := range entries {
					touched := at >= starts[i] && at < starts[i+1]
					if !touched && !sink.known[e.ID] {
						lost++
					}
				}
			}
			clean(t, damaged+"*")
		}
	}
	if lost+uncopied+refused > 0 {
		t.Errorf("of %d flipped bits: %d undamaged entries lost, %d files not copied, %d files refused", len(whole)*8, lost, uncopied, refused)
	}
}

func clean(t *testing.T, pattern string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// Wherever a file is cut off, its complete records are recovered, and a copy of the
// file is kept.
func TestSpoolEveryCut(t *testing.T) {
	dir := quickDirectory(t)
	path := filepath.Join(dir, "spool")
	entries := spoolOf(t, path, fewEntries()...)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	starts := places(whole)
	for cut := range len(whole) + 1 {
		torn := filepath.Join(dir, fmt.Sprintf("torn-%d", cut))
		if err := os.WriteFile(torn, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		sink, recovery := drained(t, torn)
		clear, end := 0, starts[0]
		for i := range entries {
			if cut >= starts[i+1] {
				clear, end = clear+1, starts[i+1]
			}
		}
		if len(sink.recorded) != clear {
			t.Errorf("cut at %d: %d entries, want %d", cut, len(sink.recorded), clear)
		}
		if cut <= starts[0] { // at most the first line
			if recovery.Saved != "" {
				t.Errorf("cut at %d: recovered %+v", cut, recovery)
			}
			continue
		}
		if recovery.TornBytes != int64(cut-end) || len(recovery.Corrupt) != 0 {
			t.Errorf("cut at %d: recovered %+v", cut, recovery)
		}
		if saved, err := os.ReadFile(recovery.Saved); cut != end && (err != nil || string(saved) != string(whole[:cut])) {
			t.Errorf("cut at %d: no copy of the file: %v", cut, err)
		}
	}
}

// Every entry that was accepted is read back, and so are those after it, even if its
// JSON is larger when it is escaped: 400 kB of < are 2.4 MB escaped for HTML.
func TestSpoolLargeEntries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	entries := spoolOf(t, path, `{"n":1}`, `{"x":"`+strings.Repeat("<", 400<<10)+`"}`, `{"n":2}`,
		`{"x":"`+strings.Repeat(`\"`, (repo.MaxMetadataBytes-8)/2)+`"}`, `{"x":"`+strings.Repeat("\u2028", (repo.MaxMetadataBytes-8)/3)+`"}`, `{"n":3}`)
	sink, recovery := drained(t, path)
	if len(sink.recorded) != len(entries) || recovery.TornBytes != 0 {
		t.Fatalf("%d of %d entries came back, %+v", len(sink.recorded), len(entries), recovery)
	}
	for i, e := range entries {
		if string(sink.recorded[i].Details) != string(e.Details) {
			t.Errorf("entry %d differs", i)
		}
	}
}

// If the spool is full, Close waits until its context ends, and returns the entries for
// which there was no room.
func TestCloseWithFullSpool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newFake()
		sink.away = true
		spool, err := OpenSpool(filepath.Join(t.TempDir(), "spool"), 600)
		if err != nil {
			t.Fatal(err)
		}
		w := newWriter(t, sink, Options{Spool: spool, BatchEntries: 1, MaxBackoff: time.Second})
		for range 20 {
			if err := w.Record(t.Context(), entryOf(`{"x":"yyyyyyyyyyyyyyyyyyyyyyy"}`)); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		left, err := w.Close(ctx)
		took := time.Since(begun)
		stats := check(t, w)
		if err == nil || !errors.Is(err, ctx.Err()) || took != time.Minute {
			t.Errorf("Close gave %d entries and %v after %v", len(left), err, took)
		}
		if stats.Returned != int64(len(left)) || stats.Returned+stats.Spooled != 20 || stats.Spooled == 0 || len(left) == 0 {
			t.Errorf("%d entries came back, the stats are %+v", len(left), stats)
		}
	})
}

// If the database returns while Close waits, all entries are written.
func TestCloseWithFullSpoolRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newFake()
		sink.away = true
		spool, err := OpenSpool(filepath.Join(t.TempDir(), "spool"), 600)
		if err != nil {
			t.Fatal(err)
		}
		w := newWriter(t, sink, Options{Spool: spool, BatchEntries: 1, MaxBackoff: time.Second})
		for range 20 {
			if err := w.Record(t.Context(), entryOf(`{"x":"yyyyyyyyyyyyyyyyyyyyyyy"}`)); err != nil {
				t.Fatal(err)
			}
		}
		back := time.AfterFunc(time.Minute, func() { sink.set(func() { sink.away = false }) })
		defer back.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if left, err := w.Close(ctx); err != nil || len(left) != 0 {
			t.Errorf("Close gave %d entries and %v", len(left), err)
		}
		if stats := check(t, w); stats.Written != 20 {
			t.Errorf("the stats are %+v", stats)
		}
	})
}

// emptied waits in a bubble of synctest until the queue and the spool are empty.
func emptied(t *testing.T, w *Writer) {
	t.Helper()
	for begun := time.Now(); check(t, w).Spooled+check(t, w).Waiting > 0; time.Sleep(time.Second) {
		if time.Since(begun) > time.Hour {
			t.Fatalf("the stats stay %+v", w.Stats())
		}
	}
}

// The spool does not accept an entry that is too large to be read back. The entry waits
// for the database, and is quarantined there.
func TestSpoolRefusesTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newFake()
		sink.away = true
		path := filepath.Join(t.TempDir(), "spool")
		spool := openSpool(t, path)
		large := entryOf(`{"x":"` + strings.Repeat("x", 16<<20) + `"}`)
		if n, err := spool.append([]repo.AuditEntry{entryOf(`{}`), large}); n != 1 || !errors.Is(err, ErrSpoolRecord) {
			t.Fatalf("append gave %d, %v", n, err)
		}
		w := newWriter(t, sink, Options{Spool: spool, MaxBackoff: time.Second})
		for i, e := range []repo.AuditEntry{entryOf(`{}`), entryOf(`{}`), large, entryOf(`{}`)} {
			// Not Record, which refuses the large one. A redactor could make one as large.
			if err := w.queue.put(t.Context(), e, nil); err != nil {
				t.Fatal(i, err)
			}
		}
		time.Sleep(time.Minute)
		check(t, w)
		sink.set(func() { sink.away = false })
		emptied(t, w)
		closeWriter(t, w)
		if stats := check(t, w); stats.Written+stats.Known != 4 || stats.Quarantined != 1 || len(sink.quarantined) != 1 {
			t.Errorf("the stats are %+v", stats)
		}
	})
}

// If the database fails while a batch from the spool is halved to find a poison entry,
// each entry is still counted once.
func TestSpoolCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "spool")
		spoolOf(t, path, `{"n":1}`, `{"n":2}`, `{"n":3}`, `{"poison":1}`)
		spool := openSpool(t, path)
		sink := newFake()
		sink.fail = func(call int, _ []repo.AuditEntry) (error, error) {
			if call == 3 { // after the first half was written
				return repo.ErrUnavailable, nil
			}
			return nil, nil
		}
		w := newWriter(t, sink, Options{Spool: spool})
		if err := w.RecordWait(t.Context(), entryOf(`{"n":5}`)); err != nil && !errors.Is(err, ErrSpooled) {
			t.Error(err)
		}
		emptied(t, w)
		closeWriter(t, w)
		if stats := check(t, w); stats.Written != 4 || stats.Known != 0 || stats.Quarantined != 1 || stats.Spooled != 0 {
			t.Errorf("the stats are %+v", stats)
		}
	})
}

// If a half of a batch fails and goes to the spool, later entries are written after it.
func TestHalfInTheSpoolGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spool := openSpool(t, filepath.Join(t.TempDir(), "spool"))
		sink := newFake()
		begun, queued := make(chan struct{}), make(chan struct{})
		sink.fail = func(call int, _ []repo.AuditEntry) (error, error) {
			switch call {
			case 1:
				close(begun)
				<-queued // all others are in the next batch
			case 3: // the first half of the refused batch
				return repo.ErrUnavailable, nil
			}
			return nil, nil
		}
		w := newWriter(t, sink, Options{Spool: spool})
		details := []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`, `{"poison":1}`}
		for i, text := range details {
			if err := w.Record(t.Context(), entryOf(text)); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				<-begun
			}
		}
		close(queued)
		emptied(t, w)
		closeWriter(t, w)
		var recorded []string
		for _, e := range sink.recorded {
			recorded = append(recorded, string(e.Details))
		}
		if !slices.Equal(recorded, details[:4]) || check(t, w).Quarantined != 1 {
			t.Errorf("recorded %q, %+v", recorded, w.Stats())
		}
	})
}
