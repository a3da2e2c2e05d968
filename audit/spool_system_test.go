//go:build linux

package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

// again runs a test of this binary in another process.
func again(t *testing.T, name, variable, value string) (string, error) {
	t.Helper()
	child := exec.CommandContext(await.Context(t), os.Args[0], "-test.run=^"+name+"$", "-test.v")
	child.Env = append(os.Environ(), variable+"="+value)
	out, err := child.CombinedOutput()
	return string(out), err
}

func TestSpoolOfTwoProcesses(t *testing.T) {
	const variable = "AGENTSTORE_AUDIT_SPOOL_SECOND"
	if path := os.Getenv(variable); path != "" {
		_, err := OpenSpool(path, 0)
		fmt.Println("in use:", errors.Is(err, ErrSpoolInUse))
		return
	}
	path := filepath.Join(t.TempDir(), "spool")
	spoolOf(t, path, fewEntries()...)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[60] ^= 1 // the first process replaces the damaged file, and must still hold its lock
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	first := openSpool(t, path)
	if out, err := again(t, t.Name(), variable, path); err != nil || !strings.Contains(out, "in use: true") {
		t.Errorf("%v: %s", err, out)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := again(t, t.Name(), variable, path); err != nil || !strings.Contains(out, "in use: false") {
		t.Errorf("after Close: %v: %s", err, out)
	}
}

// fillDisk records while the database is unavailable until the spool has no room, lets
// the database return, and checks that no entry is missing.
func fillDisk(t *testing.T, path string) {
	synctest.Test(t, func(t *testing.T) { // time passes only while the writer pauses
		spool, err := OpenSpool(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		sink := newFake()
		sink.away = true
		before := sizeOf(t, path)
		if _, err := spool.append([]repo.AuditEntry{entryOf(`{"x":"` + strings.Repeat("x", 200<<10) + `"}`)}); !errors.Is(err, ErrSpoolFull) {
			t.Fatalf("without room append gave %v", err)
		}
		// A part of a record would be a torn record to the next process.
		if after := sizeOf(t, path); after != before {
			t.Errorf("without room append left %d bytes", after-before)
		}
		w := newWriter(t, sink, Options{Spool: spool, QueueEntries: 20, BatchEntries: 5, MaxBackoff: time.Second})
		accepted := 0
		for {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := w.Record(ctx, entryOf(`{"x":"`+strings.Repeat("x", 1000)+`"}`))
			cancel()
			if err != nil {
				break
			}
			accepted++
		}
		if stats := check(t, w); stats.Spooled < 20 || stats.Waiting != 20 {
			t.Errorf("with a full disk the stats are %+v", stats)
		}
		sink.set(func() { sink.away = false })
		closeWriter(t, w)
		if stats := check(t, w); stats.Written != int64(accepted)+1 { // and the gap's entry
			t.Errorf("%d accepted, the stats are %+v", accepted, stats)
		}
	})
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// The process may write at most 100 kB to a file.
func TestSpoolFileLimit(t *testing.T) {
	const variable = "AGENTSTORE_AUDIT_SPOOL_LIMIT"
	if path := os.Getenv(variable); path != "" {
		limit := syscall.Rlimit{Cur: 100_000, Max: 100_000}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		fillDisk(t, path)
		return
	}
	if out, err := again(t, t.Name(), variable, filepath.Join(t.TempDir(), "spool")); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// A disk that is really full, which only root can set up. For others TestSpoolFileLimit
// takes its place.
// Guarantee: The audit trail: A full disk loses no accepted entry.
func TestSpoolDiskFull(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=128k"); err != nil {
		if os.Geteuid() == 0 && !errors.Is(err, syscall.EPERM) {
			t.Fatal(err)
		}
		t.Logf("cannot mount a disk: %v", err)
		return
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(disk, "spool")
	fillDisk(t, path)

	// A damaged file stays as it is if there is no room to write a repaired one.
	entries := spoolOf(t, path, fewEntries()...)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[60] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	filler, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 512))
	}
	if _, err := OpenSpool(path, 0); !errors.Is(err, ErrSpoolFull) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk gave %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(raw) {
		t.Errorf("the file was changed: %v", err)
	}
	if err := errors.Join(filler.Close(), os.Remove(filler.Name())); err != nil {
		t.Fatal(err)
	}
	if sink, recovery := drained(t, path); len(sink.recorded) != len(entries)-1 || recovery.Saved == "" {
		t.Errorf("with room again recovered %+v", recovery)
	}
}

// readOnly runs fn as a user that may not write into the directory.
func readOnly(t *testing.T, directory string, fn func()) {
	t.Helper()
	if err := os.Chmod(directory, 0o555); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // permissions do not apply to root: access files as another user in this thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := syscall.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := syscall.Setfsuid(0); err != nil {
				t.Fatal(err)
			}
		}()
	}
	fn()
}

func TestSpoolReadOnlyDirectory(t *testing.T) {
	parent, err := os.MkdirTemp("/tmp", "agentstore-spool") // other users cannot open t.TempDir's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(parent, "d")
	if err := os.Mkdir(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(directory, "spool")
	entries := spoolOf(t, path, fewEntries()...)
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	readOnly(t, directory, func() {
		if _, err := OpenSpool(path+"-new", 0); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a new file: %v", err)
		}
		if s, err := OpenSpool(path, 0); err != nil || s.Recovery.Entries != int64(len(entries)) {
			t.Errorf("an existing file: %v", err)
		} else if err := s.Close(); err != nil {
			t.Error(err)
		}
		raw[60] ^= 1
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenSpool(path, 0); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a damaged file: %v", err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != string(raw) {
			t.Errorf("the file was changed: %v", err)
		}
	})
}

// If the file is deleted while it is open, it accepts no more entries, and Close returns
// those in it that could not be written.
func TestSpoolDeleted(t *testing.T) {
	for _, back := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "spool")
			spool, err := OpenSpool(path, 0)
			if err != nil {
				t.Fatal(err)
			}
			sink := newFake()
			sink.away = true
			w := newWriter(t, sink, Options{Spool: spool})
			var want []repo.ID
			record := func() {
				e := entryOf(`{}`)
				want = append(want, e.ID)
				if err := w.Record(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			for range 5 {
				record()
			}
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				record()
			}
			time.Sleep(time.Minute)
			if stats := check(t, w); stats.Spooled != 5 || stats.Waiting != 5 {
				t.Errorf("the stats are %+v", stats)
			}
			sink.set(func() { sink.away = !back })
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if !back {
				cancel()
			}
			left, err := w.Close(ctx)
			cancel()
			stats := check(t, w)
			if back {
				if stats.Written != 10 || len(left) != 0 {
					t.Errorf("Close returned %d entries and %v, the stats are %+v", len(left), err, stats)
				}
				return
			}
			if !errors.Is(err, ErrSpoolGone) || stats.Returned != 10 || len(left) != 10 {
				t.Fatalf("Close returned %d entries and %v, the stats are %+v", len(left), err, stats)
			}
			for i, e := range left {
				if e.ID != want[i] {
					t.Errorf("entry %d differs", i)
				}
			}
		})
	}
}

// If the file is truncated or damaged while it is open, the next process recovers what
// is left of it, and the queue goes on.
func TestSpoolChangedWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	spoolOf(t, path, fewEntries()...)
	spool := openSpool(t, path)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[places(raw)[2]+20] ^= 4
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := spool.next(10); !errors.Is(err, ErrSpoolDamaged) {
		t.Fatalf("next gave %v", err)
	}
	sink := newFake()
	w := newWriter(t, sink, Options{Spool: spool})
	if err := w.RecordWait(t.Context(), entryOf(`{"after":1}`)); err != nil {
		t.Error(err)
	}
	closeWriter(t, w)
	if stats := w.Stats(); stats.Spooled != 5 || stats.Written != 1 {
		t.Errorf("the stats are %+v", stats)
	}
	if sink, recovery := drained(t, path); len(sink.recorded) != 4 || recovery.Saved == "" {
		t.Errorf("recovered %+v", recovery)
	}

	cut := openSpool(t, path)
	if _, err := cut.append([]repo.AuditEntry{entryOf(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 30); err != nil {
		t.Fatal(err)
	}
	if _, err := cut.append([]repo.AuditEntry{entryOf(`{}`)}); !errors.Is(err, ErrSpoolDamaged) {
		t.Errorf("append to a truncated file gave %v", err)
	}
}
