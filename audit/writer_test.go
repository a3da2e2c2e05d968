package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// Fake time: the tests with times run in bubbles of synctest.

// fakeSink is a database that a test can make fail. It keeps the entries in order, each
// id once.
type fakeSink struct {
	mu          sync.Mutex
	recorded    []repo.AuditEntry
	known       map[repo.ID]bool
	quarantined map[repo.ID]auditlog.Poison
	// fail returns each call's error: before, instead of recording, or after it.
	fail func(call int, entries []repo.AuditEntry) (before, after error)
	// hang makes calls wait until their contexts end. away makes them fail.
	hang, away bool

	calls int
	opens int
	open  int
}

func newFake() *fakeSink {
	return &fakeSink{known: map[repo.ID]bool{}, quarantined: map[repo.ID]auditlog.Poison{}}
}

func (f *fakeSink) Sink(context.Context) (auditlog.Sink, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opens++
	f.open++
	return f, nil
}

func (f *fakeSink) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open--
	return nil
}

func (f *fakeSink) Record(ctx context.Context, entries []repo.AuditEntry) (auditlog.Recorded, error) {
	f.mu.Lock()
	hang := f.hang
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return auditlog.Recorded{}, fmt.Errorf("%w: %w", repo.ErrUnknownOutcome, ctx.Err())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.away {
		return auditlog.Recorded{}, fmt.Errorf("%w: gone", repo.ErrUnavailable)
	}
	var before, after error
	if f.fail != nil {
		before, after = f.fail(f.calls, entries)
	}
	if before != nil {
		return auditlog.Recorded{}, before
	}
	for _, e := range entries {
		if strings.Contains(string(e.Details), "poison") {
			return auditlog.Recorded{}, fmt.Errorf("%w: refused", repo.ErrInvalid)
		}
	}
	var result auditlog.Recorded
	for _, e := range entries {
		if f.known[e.ID] {
			result.Known++
			continue
		}
		f.known[e.ID] = true
		f.recorded = append(f.recorded, e)
		result.Written++
	}
	return result, after
}

func (f *fakeSink) Quarantine(_ context.Context, poison auditlog.Poison) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quarantined[poison.ID] = poison
	return nil
}

func (f *fakeSink) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func entryOf(details string) repo.AuditEntry {
	return repo.AuditEntry{ID: repo.NewID(), Type: EventToolInvoked, Details: json.RawMessage(details)}
}

func newWriter(t *testing.T, sink *fakeSink, options Options) *Writer {
	t.Helper()
	w, err := NewWriter(sink, options)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// closeWriter closes a writer whose entries can be written, and checks its stats.
func closeWriter(t *testing.T, w *Writer) {
	t.Helper()
	left, err := w.Close(t.Context())
	if err != nil || len(left) != 0 {
		t.Errorf("Close gave %d entries, %v", len(left), err)
	}
	check(t, w)
}

func check(t *testing.T, w *Writer) Stats {
	t.Helper()
	stats := w.Stats()
	if err := stats.Check(); err != nil {
		t.Error(err)
	}
	return stats
}

// The entries of 32 concurrent recorders are all written once, in each recorder's order.
func TestRecordConcurrently(t *testing.T) {
	sink := newFake()
	w := newWriter(t, sink, Options{QueueEntries: 100, BatchEntries: 37})
	const recorders, each = 32, 300
	var all sync.WaitGroup
	for r := range recorders {
		all.Go(func() {
			for i := range each {
				e := entryOf(fmt.Sprintf(`{"r":%d,"i":%d}`, r, i))
				record := w.Record
				if i%100 == 99 {
					record = w.RecordWait
				}
				if err := record(t.Context(), e); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	closeWriter(t, w)
	next := map[int]int{}
	for _, e := range sink.recorded {
		var at struct{ R, I int }
		if err := json.Unmarshal(e.Details, &at); err != nil {
			t.Fatal(err)
		}
		if next[at.R] != at.I {
			t.Fatalf("recorder %d: entry %d, want %d", at.R, at.I, next[at.R])
		}
		next[at.R]++
	}
	if len(sink.recorded) != recorders*each || sink.open != 0 {
		t.Errorf("%d entries, %d sinks open", len(sink.recorded), sink.open)
	}
}

// Whatever fails, and if an outcome is unknown, no entry is lost, written twice, or out
// of order.
// Guarantee: The audit trail: Every accepted entry is accounted for, whatever fails.
func TestFailingDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newFake()
		sink.fail = func(call int, _ []repo.AuditEntry) (before, after error) {
			switch call % 4 {
			case 0:
				return fmt.Errorf("%w: gone", repo.ErrUnavailable), nil
			case 1:
				return nil, fmt.Errorf("%w: cut off", repo.ErrUnknownOutcome)
			case 2:
				return errors.New("never heard of"), nil
			}
			return nil, nil
		}
		w := newWriter(t, sink, Options{BatchEntries: 7})
		var want []repo.ID
		for range 100 {
			e := entryOf(`{}`)
			want = append(want, e.ID)
			if err := w.Record(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		closeWriter(t, w)
		if stats := w.Stats(); stats.Written+stats.Known != 100 || stats.Known == 0 {
			t.Errorf("the stats are %+v", stats)
		}
		for i, e := range sink.recorded {
			if e.ID != want[i] {
				t.Fatalf("entry %d differs", i)
			}
		}
	})
}

// Pauses double up to the maximum, and Health reports the retries.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newFake()
		var at []time.Time
		sink.fail = func(call int, _ []repo.AuditEntry) (error, error) {
			at = append(at, time.Now())
			if call <= 15 {
				return fmt.Errorf("%w: gone", repo.ErrUnavailable), nil
			}
			return nil, nil
		}
		w := newWriter(t, sink, Options{})
		if err := w.Record(t.Context(), entryOf(`{}`)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if h := w.Health(); h.State != Retrying || h.Attempts < 5 || !errors.Is(h.Err, repo.ErrUnavailable) {
			t.Errorf("the health is %+v", h)
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h := w.Health(); h != (Health{State: Healthy}) {
			t.Errorf("the health is %+v", h)
		}
		for i := 1; i < len(at); i++ {
			most := min(30*time.Second, 50*time.Millisecond<<(i-1))
			if pause := at[i].Sub(at[i-1]); pause < most/2 || pause > most {
				t.Errorf("pause %d was %v, want %v to %v", i, pause, most/2, most)
			}
		}
		closeWriter(t, w)
	})
}

func TestMisconfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for cause, want := range map[error]HealthState{
			repo.ErrPermission: Misconfigured, repo.ErrSchema: Misconfigured, repo.ErrUnavailable: Retrying,
			coded("42501"): Retrying, // this package does not interpret SQLSTATEs
		} {
			sink := newFake()
			sink.fail = func(call int, _ []repo.AuditEntry) (error, error) {
				if call < 4 {
					return fmt.Errorf("record: %w", cause), nil
				}
				return nil, nil
			}
			w := newWriter(t, sink, Options{})
			_ = w.Record(t.Context(), entryOf(`{}`))
			time.Sleep(10 * time.Millisecond)
			if h := w.Health(); h.State != want {
				t.Errorf("%v: the health is %+v", cause, h)
			}
			closeWriter(t, w)
		}
	})
}

type coded string

func (c coded) Error() string    { return string(c) }
func (c coded) SQLState() string { return string(c) }

// Poison entries are quarantined wherever they are in a batch. The others are written,
// in order.
func TestPoison(t *testing.T) {
	for _, places := range [][]int{{0}, {1}, {49}, {99}, {0, 99}, {30, 31, 32}} {
		sink := newFake()
		sink.fail = func(call int, _ []repo.AuditEntry) (error, error) {
			if call == 1 { // all are in one batch
				return errors.New("not yet"), nil
			}
			return nil, nil
		}
		var told []repo.ID
		w := newWriter(t, sink, Options{MinBackoff: 50 * time.Millisecond, OnQuarantine: func(e repo.AuditEntry, err error) {
			told = append(told, e.ID)
			if !errors.Is(err, repo.ErrInvalid) {
				t.Errorf("quarantined for %v", err)
			}
		}})
		var good, bad []repo.ID
		for i := range 100 {
			details := `{}`
			for _, place := range places {
				if place == i {
					details = `{"poison":"` + strings.Repeat("x", 10) + `"}`
				}
			}
			e := entryOf(details)
			if details == `{}` {
				good = append(good, e.ID)
			} else {
				bad = append(bad, e.ID)
			}
			if err := w.Record(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		closeWriter(t, w)
		if fmt.Sprint(told) != fmt.Sprint(bad) || len(sink.quarantined) != len(bad) {
			t.Errorf("%v: quarantined %v, want %v", places, told, bad)
		}
		var got []repo.ID
		for _, e := range sink.recorded {
			got = append(got, e.ID)
		}
		if fmt.Sprint(got) != fmt.Sprint(good) {
			t.Errorf("%v: the others are incomplete or out of order", places)
		}
		if stats := w.Stats(); stats.Quarantined != int64(len(bad)) {
			t.Errorf("the stats are %+v", stats)
		}
	}
}

// A failure while a batch is being halved does not change the order of the rest.
func TestFailureOfAHalf(t *testing.T) {
	sink := newFake()
	sink.fail = func(call int, _ []repo.AuditEntry) (error, error) {
		if call == 1 || call == 3 { // 1: all are in one batch; 3: the first half
			return repo.ErrUnavailable, nil
		}
		return nil, nil
	}
	w := newWriter(t, sink, Options{MinBackoff: 50 * time.Millisecond})
	var want, got []repo.ID
	for _, details := range []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"poison":1}`} {
		e := entryOf(details)
		if err := w.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		want = append(want, e.ID)
	}
	closeWriter(t, w)
	for _, e := range sink.recorded {
		got = append(got, e.ID)
	}
	if !slices.Equal(got, want[:3]) {
		t.Errorf("recorded %v, want %v", got, want[:3])
	}
	if stats := check(t, w); stats.Written != 3 || stats.Quarantined != 1 {
		t.Errorf("the stats are %+v", stats)
	}
}

func TestRecordWaitOfPoison(t *testing.T) {
	w := newWriter(t, newFake(), Options{})
	if err := w.RecordWait(t.Context(), entryOf(`{"poison":1}`)); !errors.Is(err, ErrQuarantined) {
		t.Errorf("got %v, want ErrQuarantined", err)
	}
	closeWriter(t, w)
}

// With a full queue callers wait until their contexts end. An entry of the trail counts
// those that gave up.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newFake()
		sink.hang = true
		w := newWriter(t, sink, Options{QueueEntries: 5, WriteTimeout: time.Minute})
		for range 5 {
			if err := w.Record(t.Context(), entryOf(`{}`)); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := w.Record(ctx, entryOf(`{}`)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a full queue gave %v", err)
			}
			cancel()
		}
		accepted := make(chan error, 1)
		go func() { accepted <- w.Record(t.Context(), entryOf(`{"late":1}`)) }()
		synctest.Wait()
		sink.set(func() { sink.hang = false })
		if err := <-accepted; err != nil {
			t.Errorf("the call that waited gave %v", err)
		}
		closeWriter(t, w)
		if stats := w.Stats(); stats.Refused != 3 || stats.Written != 7 {
			t.Errorf("the stats are %+v", stats)
		}
		var gaps int
		for _, e := range sink.recorded {
			if e.Type == EventAuditGap {
				gaps++
				if string(e.Details) != `{"refused":3}` {
					t.Errorf("the gap is %s", e.Details)
				}
			}
		}
		if gaps != 1 {
			t.Errorf("%d gap entries", gaps)
		}
	})
}

func TestQueueBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newFake()
		sink.hang = true
		w := newWriter(t, sink, Options{QueueBytes: 2000, WriteTimeout: time.Minute})
		big := `{"x":"` + strings.Repeat("x", 5000) + `"}`
		if err := w.Record(t.Context(), entryOf(big)); err != nil { // an empty queue always has room for one
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Record(ctx, entryOf(`{}`)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		sink.set(func() { sink.hang = false })
		closeWriter(t, w)
	})
}

// If the server hangs until the deadline, each of several concurrent calls of Close
// returns the entries that were not written, redacted and in order.
func TestCloseReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newFake()
		sink.hang = true
		w := newWriter(t, sink, Options{BatchEntries: 3, QueueEntries: 10})
		var want []repo.ID
		for i := range 10 {
			e := entryOf(fmt.Sprintf(`{"i":%d,"password":"hunter2"}`, i))
			want = append(want, e.ID)
			if err := w.Record(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		blocked, waiting := make(chan error, 1), make(chan error, 1)
		go func() { blocked <- w.Record(t.Context(), entryOf(`{}`)) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var all sync.WaitGroup
		begun := time.Now()
		for range 8 {
			all.Go(func() {
				left, err := w.Close(ctx)
				if !errors.Is(err, context.DeadlineExceeded) || len(left) != 10 {
					t.Errorf("Close gave %d entries, %v", len(left), err)
					return
				}
				for i, e := range left {
					if e.ID != want[i] || strings.Contains(string(e.Details), "hunter2") {
						t.Errorf("entry %d differs, or is not redacted", i)
					}
				}
			})
		}
		all.Wait()
		if took := time.Since(begun); took > 6*time.Second {
			t.Errorf("Close took %v", took)
		}
		if err := <-blocked; !errors.Is(err, repo.ErrClosed) {
			t.Errorf("the call that waited for room gave %v", err)
		}
		go func() { waiting <- w.RecordWait(t.Context(), entryOf(`{}`)) }()
		if err := <-waiting; !errors.Is(err, repo.ErrClosed) {
			t.Errorf("recording after Close gave %v", err)
		}
		if stats := check(t, w); stats.Returned != 10 || sink.open != 0 {
			t.Errorf("the stats are %+v, %d sinks open", stats, sink.open)
		}
	})
}

func TestRecordWaitContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newFake()
		sink.hang = true
		w := newWriter(t, sink, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := w.RecordWait(ctx, entryOf(`{}`))
		if !errors.Is(err, repo.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		sink.set(func() { sink.hang = false })
		closeWriter(t, w)
		if len(sink.recorded) != 1 {
			t.Error("the entry was not written")
		}
	})
}

func TestInvalidEntriesAndOptions(t *testing.T) {
	w := newWriter(t, newFake(), Options{})
	for _, e := range []repo.AuditEntry{
		{Type: "no_such_type"}, {Type: EventAuthFailure, Actor: "\x00"}, {Type: EventAuthFailure, Details: json.RawMessage(`[]`)},
	} {
		if err := w.Record(t.Context(), e); !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%+v gave %v", e, err)
		}
	}
	closeWriter(t, w)
	if stats := w.Stats(); stats != (Stats{}) {
		t.Errorf("the stats are %+v", stats)
	}
	for _, o := range []Options{
		{QueueEntries: -1},
		{QueueBytes: -1},
		{BatchEntries: repo.MaxBatchMessages + 1},
		{WriteTimeout: -1},
		{MinBackoff: time.Second, MaxBackoff: time.Millisecond},
	} {
		if _, err := NewWriter(newFake(), o); !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%+v gave %v", o, err)
		}
	}
	if _, err := NewWriter(nil, Options{}); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("no opener gave %v", err)
	}
	if _, err := NewSealer(nil, SealerOptions{}); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("no log gave %v", err)
	}
}

// While the database is unavailable, entries go to the spool and callers do not wait.
// The entries are written, in order, when it is back.
func TestSpoolWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newFake()
		sink.away = true
		spool, err := OpenSpool(filepath.Join(t.TempDir(), "spool"), 0)
		if err != nil {
			t.Fatal(err)
		}
		w := newWriter(t, sink, Options{QueueEntries: 10, Spool: spool})
		var want []repo.ID
		for i := range 500 {
			e := entryOf(`{"i":1}`)
			want = append(want, e.ID)
			if err := w.Record(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			if i == 400 {
				sink.set(func() { sink.away = false })
			}
		}
		if err := w.RecordWait(t.Context(), entryOf(`{}`)); err != nil && !errors.Is(err, ErrSpooled) {
			t.Error(err)
		}
		emptied(t, w) // if the last attempt failed, Close leaves what is in the spool to the next process
		closeWriter(t, w)
		if stats := w.Stats(); stats.Spooled != 0 || stats.Written != 501 || len(sink.recorded) != 501 {
			t.Fatalf("the stats are %+v, %d are recorded", stats, len(sink.recorded))
		}
		for i, id := range want {
			if sink.recorded[i].ID != id {
				t.Fatalf("entry %d differs", i)
			}
		}
	})
}

// During a pause, however long, entries go to the spool at once.
func TestSpoolDuringPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newFake()
		sink.away = true
		spool, err := OpenSpool(filepath.Join(t.TempDir(), "spool"), 0)
		if err != nil {
			t.Fatal(err)
		}
		w := newWriter(t, sink, Options{QueueEntries: 2, Spool: spool, MinBackoff: time.Hour, MaxBackoff: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 50 {
			if err := w.Record(ctx, entryOf(`{}`)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		closeWriter(t, w)
		if stats := w.Stats(); stats.Spooled != 50 {
			t.Errorf("the stats are %+v", stats)
		}
	})
}

// What Record costs its caller while the queue has room. The sink hangs, so that the
// writer's own work is not measured.
func BenchmarkRecord(b *testing.B) {
	sink := newFake()
	sink.hang = true
	w, err := NewWriter(sink, Options{QueueEntries: 10_000_000, QueueBytes: 16 << 30, WriteTimeout: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	entry := repo.AuditEntry{Type: EventToolInvoked, Actor: "openai/gpt", OccurredAt: time.Now(), Details: json.RawMessage(
		`{"tool":"edit","path":"src/main.go","lines":[10,20],"summary":"` + strings.Repeat("changed a thing or two; ", 20) + `","ok":true}`)}
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Record(b.Context(), entry); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	if _, err := w.Close(ctx); err == nil {
		b.Error("the sink does not hang")
	}
}
