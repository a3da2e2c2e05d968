package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// streamFindings counts what is wrong with streams.
type streamFindings struct {
	lost    int // acknowledged parts that are not stored at their place
	strange int // stored parts that are of another place
	late    int // stored parts with a smaller fence than one before
	allowed int // streams to which a writer that was replaced could go on writing
	// Of what followers got:
	missed, twice, moved int
}

// Processes append parts while connections are cut and backends end. One is killed, and
// one is stopped until another has opened its streams, and is then continued. Followers
// get each part once, and the writer that was replaced is refused. The same faults and
// checks find writers that look at the fence and then write, and followers that have
// notifications and no position.
// Guarantee: Streams: Parts and their order survive crashes and broken connections.
func TestStreams(t *testing.T) {
	s := newSharedStage(t)
	for round := range pgtest.Choose(20, 1) {
		if found := s.replaceWriters(t, round, false); found != (streamFindings{}) {
			t.Fatalf("round %d: %+v", round, found)
		}
	}
	execute(t, s.url, `CREATE FUNCTION naive() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_notify('naive', (SELECT key FROM streams WHERE id = NEW.stream_id) || ' ' || convert_from(NEW.data, 'UTF8')); RETURN NULL;
	END $$; CREATE TRIGGER naive AFTER INSERT ON stream_parts FOR EACH ROW EXECUTE FUNCTION naive()`)
	var naive streamFindings
	round := 100
	await.For(t, "the faults and checks catch the naive ones", func() bool {
		found := s.replaceWriters(t, round, true)
		naive.late, naive.missed = naive.late+found.late, naive.missed+found.missed
		round++
		return naive.late > 0 && naive.missed > 0
	})
	t.Logf("naive: %+v", naive)
}

// replaceWriters has one process after the other write to the same streams, and followers
// of them, which meet the same faults.
func (s *stage) replaceWriters(t *testing.T, round int, naive bool) (found streamFindings) {
	t.Helper()
	const keys, parts = 4, 50
	ctx, cancel := context.WithCancel(await.Context(t))
	defer cancel() // kills what is left
	task := streamTask{DatabaseURL: s.proxy.through(t, s.url), Naive: naive}
	for n := range keys {
		task.Keys = append(task.Keys, fmt.Sprintf("round%d/%d", round, n))
	}
	start := func(owner string) *streamWriters {
		task.Owner = owner
		return startStreamWriters(ctx, t, task)
	}
	var tails *streamTails
	var writers []*streamWriters
	if !naive { // which are caught without it
		killed := start("killed")
		killed.await(t, task.Keys, 1)
		tails = s.tailStreams(ctx, t, task)
		s.underCuts(t, killed.parts, func() { killed.await(t, task.Keys, parts) })
		if err := killed.command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		killed.end(t, true)
		writers = append(writers, killed)
	}

	// Without cuts: what it was about to send when it was stopped arrives.
	stopped := start("stopped")
	stopped.await(t, task.Keys, parts)
	if err := stopped.command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	last := start("last")
	last.await(t, task.Keys, 1)
	if naive {
		tails = s.tailStreams(ctx, t, task)
	}
	if err := stopped.command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	stopped.end(t, false)
	s.underCuts(t, last.parts, func() { last.await(t, task.Keys, parts) })
	if err := last.input.Close(); err != nil { // it finishes the streams
		t.Fatal(err)
	}
	last.end(t, false)
	if naive { // they would not learn that nothing follows
		await.For(t, "the naive followers end", func() bool {
			execute(t, s.url, "NOTIFY naive, 'end'")
			return tails.over()
		})
	}
	tails.end(t)

	for _, key := range task.Keys {
		stored := s.storedParts(t, key)
		fence := int64(0)
		for n, data := range stored {
			var by, sequence int64
			if _, err := fmt.Sscanf(data, "%d/%d", &by, &sequence); err != nil || sequence != int64(n) {
				found.strange++
			}
			if by < fence {
				found.late++
			}
			fence = max(fence, by)
		}
		for _, w := range append(writers, stopped, last) {
			for sequence, fence := range w.wrote[key] {
				if sequence >= int64(len(stored)) || stored[sequence] != part(fence, sequence) {
					found.lost++
				}
			}
		}
		if !stopped.refused[key] {
			found.allowed++
		}
		for _, got := range tails.got[key] {
			missed, twice, moved := followed(*got, stored)
			found.missed, found.twice, found.moved = found.missed+missed, found.twice+twice, found.moved+moved
		}
		t.Logf("%s: %d parts", key, len(stored))
	}
	return found
}

// underCuts does something while connections are cut and backends end, and parts are written in between.
func (s *stage) underCuts(t *testing.T, parts func() int, do func()) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var trouble sync.WaitGroup
	trouble.Go(func() { s.cutEvery(ctx, t, 200*time.Millisecond, parts) })
	defer trouble.Wait()
	defer end()
	do()
}

// storedParts reads the parts of a key's stream directly, not through the library.
func (s *stage) storedParts(t *testing.T, key string) []string {
	t.Helper()
	conn := connect(t, s.url)
	defer disconnect(conn)
	rows, err := conn.Query(t.Context(), `SELECT convert_from(data, 'UTF8') FROM stream_parts
		WHERE stream_id = (SELECT id FROM streams WHERE key = $1) ORDER BY sequence`, key)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// streamTails follow streams until they are finished.
type streamTails struct {
	got     map[string][]*[]string // of each key, by follower; of its goroutine until it ends
	running sync.WaitGroup
	ended   chan struct{}
	failed  chan error
}

func (s *stage) tailStreams(ctx context.Context, t *testing.T, task streamTask) *streamTails {
	t.Helper()
	each := 2
	if task.Naive { // with a connection each
		each = 1
	}
	tails := &streamTails{got: map[string][]*[]string{}, ended: make(chan struct{}), failed: make(chan error, each*len(task.Keys))}
	tail := tailNaively(task.DatabaseURL)
	if !task.Naive {
		store, err := openPatiently(ctx, task.DatabaseURL, agentstore.Options{MaxConns: 4})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		tail = tailPatiently(store)
	}
	for _, key := range task.Keys {
		for range each {
			got := new([]string)
			tails.got[key] = append(tails.got[key], got)
			tails.running.Go(func() {
				if err := tail(ctx, key, func(part string) { *got = append(*got, part) }); err != nil {
					tails.failed <- err
				}
			})
		}
	}
	go func() {
		tails.running.Wait()
		close(tails.ended)
	}()
	return tails
}

func (f *streamTails) over() bool {
	select {
	case <-f.ended:
		return true
	default:
		return false
	}
}

func (f *streamTails) end(t *testing.T) {
	t.Helper()
	await.For(t, "the followers have come to the end", f.over)
	select {
	case err := <-f.failed:
		t.Errorf("no fault explains what a follower got: %v", err)
	default:
	}
}

// tailPatiently follows a stream until it is finished.
func tailPatiently(store *agentstore.Store) func(ctx context.Context, key string, got func(string)) error {
	return func(ctx context.Context, key string, got func(string)) error {
		var position repo.StreamPosition
		for {
			var failed error
			for part, err := range store.Streams().Follow(ctx, key, position) {
				if failed = err; err == nil {
					got(string(part.Data))
					position = part.Next()
				}
			}
			if !errors.Is(failed, repo.ErrUnavailable) {
				return failed
			}
			time.Sleep(clientPause) // pace: until it goes on
		}
	}
}

// tailNaively takes the parts from notifications, and connects again if it has to.
func tailNaively(databaseURL string) func(ctx context.Context, key string, got func(string)) error {
	return func(ctx context.Context, key string, got func(string)) error {
		listen := func() (over bool) {
			conn, err := pgx.Connect(ctx, pgtest.WithParameter(databaseURL, "application_name", "agentstore"))
			if err != nil {
				return false
			}
			defer disconnect(conn)
			if _, err := conn.Exec(ctx, "LISTEN naive"); err != nil {
				return false
			}
			for {
				notification, err := conn.WaitForNotification(ctx)
				if err != nil {
					return false
				}
				if notification.Payload == "end" {
					return true
				}
				if of, part, _ := strings.Cut(notification.Payload, " "); of == key {
					got(part)
				}
			}
		}
		for !listen() && ctx.Err() == nil {
			time.Sleep(clientPause) // pace: until it goes on
		}
		return ctx.Err()
	}
}
