package audit

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Fake time: the tests with times run in bubbles of synctest.

// Callers that reuse their buffers as soon as Record, RecordWait or Close has
// returned do not change the entries in the trail, in the spool, or in what Close
// returns.
// Guarantee: Memory: The audit writer keeps no memory of its caller's.
func TestWriterKeepsNoBuffers(t *testing.T) {
	const mine, others = `{"tenant":"mine"}`, `{"tenant":"else"}`
	check := func(t *testing.T, where string, entries []repo.AuditEntry, count int) {
		t.Helper()
		if len(entries) != count {
			t.Errorf("%s: %d entries, want %d", where, len(entries), count)
		}
		for _, e := range entries {
			if string(e.Details) != mine {
				t.Errorf("%s: details %s, want %s", where, e.Details, mine)
			}
		}
	}
	// recordTwo calls Record, and then RecordWait, which times out, with one buffer.
	recordTwo := func(t *testing.T, w *Writer) {
		t.Helper()
		entry := entryOf(mine)
		if err := w.Record(t.Context(), entry); err != nil {
			t.Error(err)
		}
		copy(entry.Details, others)
		copy(entry.Details, mine)
		entry.ID = repo.ID{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.RecordWait(ctx, entry); err == nil {
			t.Error("RecordWait did not time out")
		}
		copy(entry.Details, others)
	}
	t.Run("queue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			sink := newFake()
			sink.hang = true
			w := newWriter(t, sink, Options{WriteTimeout: time.Minute})
			recordTwo(t, w)
			sink.set(func() { sink.hang = false })
			closeWriter(t, w)
			check(t, "the trail", sink.recorded, 2)
		})
	})
	t.Run("spool", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "spool")
		spool, err := OpenSpool(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			sink := newFake()
			sink.hang = true
			w := newWriter(t, sink, Options{WriteTimeout: time.Minute, Spool: spool})
			recordTwo(t, w)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if left, _ := w.Close(ctx); len(left) > 0 {
				t.Errorf("Close returned %d entries", len(left))
			}
		})
		again, err := OpenSpool(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		entries, _, err := again.next(10)
		if err != nil {
			t.Fatal(err)
		}
		check(t, "the spool", entries, 2)
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("close", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			sink := newFake()
			sink.hang = true
			w := newWriter(t, sink, Options{WriteTimeout: time.Minute})
			recordTwo(t, w)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			for range 2 { // each call returns a copy
				left, _ := w.Close(ctx)
				check(t, "Close", left, 2)
				for i := range left {
					copy(left[i].Details, others)
					left[i].Type = "x"
				}
			}
		})
	})
}
