package audit

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// What the database answers to an entry is no sign that it is ill.
func TestPoisonIsNoIllHealth(t *testing.T) {
	var log bytes.Buffer // the writer's goroutine's, which has ended when it is read
	w := newWriter(t, newFake(), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := w.RecordWait(t.Context(), entryOf(`{"poison":1}`)); err == nil {
		t.Error("no error")
	}
	closeWriter(t, w)
	if text := log.String(); strings.Contains(text, "cannot record") || !strings.Contains(text, "quarantined") {
		t.Errorf("the log is %s", text)
	}
}

// What is settled gives its bytes back: the queue takes any amount in time.
func TestQueueBytesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, newFake(), Options{QueueBytes: 2000})
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
		closeWriter(t, w)
	})
}

// unquarantined cannot set anything aside at first.
type unquarantined struct {
	*fakeSink
	left int
}

func (u *unquarantined) Sink(ctx context.Context) (repo.AuditSink, error) {
	_, err := u.fakeSink.Sink(ctx)
	return u, err
}

func (u *unquarantined) Quarantine(ctx context.Context, poison repo.AuditPoison) error {
	if u.left--; u.left >= 0 {
		return repo.ErrUnavailable
	}
	return u.fakeSink.Quarantine(ctx, poison)
}

// An entry is quarantined when the database has it, and not before.
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
			t.Error("it is said to be quarantined, and is not there")
		}
		closeWriter(t, w)
	})
}
