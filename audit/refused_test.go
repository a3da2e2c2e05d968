package audit

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// An entry that the database refuses is not logged as a failure of the database.
func TestQuarantineIsNoIllHealth(t *testing.T) {
	var log bytes.Buffer // read after the goroutine that writes it has ended
	w := newWriter(t, newFake(), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := w.RecordWait(t.Context(), entryOf(`{"poison":1}`)); err == nil {
		t.Error("no error")
	}
	closeWriter(t, w)
	if text := log.String(); strings.Contains(text, "cannot record") || !strings.Contains(text, "quarantined") {
		t.Errorf("the log is %s", text)
	}
}

// Entries that are done free their bytes: over time the queue takes any amount.
func TestQueueBytesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newFake()
		w := newWriter(t, sink, Options{QueueBytes: 2000, WriteTimeout: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 100 {
			if err := w.RecordWait(ctx, entryOf(`{"x":"`+strings.Repeat("x", 500)+`"}`)); err != nil {
				t.Fatal(err)
			}
			if err := w.Record(ctx, entryOf(`{}`)); err != nil {
				t.Fatal(err)
			}
		}
		// An empty queue always has room for one. Two fit while neither is done.
		emptied(t, w)
		sink.set(func() { sink.hang = true })
		for range 2 {
			if err := w.Record(ctx, entryOf(`{}`)); err != nil {
				t.Fatal(err)
			}
		}
		sink.set(func() { sink.hang = false })
		closeWriter(t, w)
	})
}

// unquarantined fails to quarantine the first left times.
type unquarantined struct {
	*fakeSink
	left int
}

func (u *unquarantined) Sink(ctx context.Context) (auditlog.Sink, error) {
	_, err := u.fakeSink.Sink(ctx)
	return u, err
}

func (u *unquarantined) Quarantine(ctx context.Context, poison auditlog.Poison) error {
	if u.left--; u.left >= 0 {
		return repo.ErrUnavailable
	}
	return u.fakeSink.Quarantine(ctx, poison)
}

// An entry counts as quarantined only when the database has it.
func TestQuarantineIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &unquarantined{newFake(), 3}
		w, err := NewWriter(sink, Options{})
		if err != nil {
			t.Fatal(err)
		}
		entry := entryOf(`{"poison":1}`)
		if err := w.RecordWait(t.Context(), entry); err == nil {
			t.Error("no error")
		}
		if _, there := sink.quarantined[entry.ID]; !there {
			t.Error("RecordWait returned before the entry was quarantined")
		}
		closeWriter(t, w)
	})
}
