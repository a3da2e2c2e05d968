package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// streamTask is the task of a process that writes to streams, until others have opened
// them, or its input ends.
type streamTask struct {
	DatabaseURL, Owner string
	Keys               []string
	// Naive looks at the fence, and then writes.
	Naive bool
}

const streamTaskVariable = "AGENTSTORE_FAULTS_STREAM_WRITERS"

// part is the content of a part: its writer's fence, and its place.
func part(fence, sequence int64) string { return fmt.Sprintf("%d/%d", fence, sequence) }

// runStreamWriters is the main function of such a process.
func runStreamWriters(ctx context.Context, task streamTask) error {
	store, err := openPatiently(ctx, task.DatabaseURL, agentstore.Options{MaxConns: 4})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	told := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(told)
	}()
	ended := make(chan error, len(task.Keys))
	for _, key := range task.Keys {
		go func() { ended <- task.write(ctx, store, key, told) }()
	}
	for range task.Keys {
		err = errors.Join(err, <-ended)
	}
	return err
}

// write writes to one stream, and prints each part that is acknowledged: in turns with
// Append and with a PartWriter, which makes again by itself what is in doubt.
func (task streamTask) write(ctx context.Context, store *agentstore.Store, key string, told <-chan struct{}) error {
	var stream repo.Stream
	err := insist(ctx, func(ctx context.Context) (err error) {
		stream, err = store.Streams().Open(ctx, repo.NewStream{Key: key, Owner: task.Owner, TTL: time.Hour})
		return err
	})
	add := appending(store.Streams().Append)
	if task.Naive {
		add = appending(naiveParts{store}.Append)
	} else if stream.Fence%2 == 0 {
		add = writingAhead(live.NewPartWriter(ctx, store.Streams(), stream))
	}
	for err == nil {
		var parts [][]byte
		for n := range 1 + rand.Int64N(3) {
			parts = append(parts, []byte(part(stream.Fence, stream.Next+n)))
		}
		var next int64
		next, err = add(ctx, stream, parts)
		for ; err == nil && stream.Next < next; stream.Next++ {
			fmt.Println("wrote", key, stream.Fence, stream.Next)
		}
		select {
		case <-told:
			return insist(ctx, func(ctx context.Context) error { return store.Streams().Finish(ctx, stream) })
		case <-time.After(time.Millisecond): // pace: until the next part
		}
	}
	if _, isFenced := errors.AsType[*repo.FencedError](err); isFenced {
		fmt.Println("refused", key, stream.Fence, stream.Next)
		return nil
	}
	return err
}

type adder func(ctx context.Context, stream repo.Stream, parts [][]byte) (next int64, err error)

func appending(add func(context.Context, repo.Stream, ...[]byte) (int64, error)) adder {
	return func(ctx context.Context, stream repo.Stream, parts [][]byte) (next int64, err error) {
		err = insist(ctx, func(ctx context.Context) (err error) {
			next, err = add(ctx, stream, parts...)
			return err
		})
		return next, err
	}
}

func writingAhead(writer *live.PartWriter) adder {
	return func(ctx context.Context, _ repo.Stream, parts [][]byte) (int64, error) {
		for _, part := range parts {
			if err := writer.Write(ctx, part); err != nil {
				return 0, err
			}
		}
		err := writer.Flush(ctx)
		return writer.Stream().Next, err
	}
}

// insist makes a call until no fault explains its result.
func insist(ctx context.Context, call func(context.Context) error) error {
	for {
		err := call(ctx)
		if err == nil || !isExcused(err) || ctx.Err() != nil {
			return err
		}
		time.Sleep(clientPause) // pace: until the next attempt
	}
}

// naiveParts appends as one would by hand: it reads the fence, and then writes.
type naiveParts struct{ store *agentstore.Store }

func (n naiveParts) Append(ctx context.Context, stream repo.Stream, parts ...[]byte) (int64, error) {
	var fence, next int64
	id := pgtype.UUID{Bytes: stream.ID, Valid: true}
	if err := n.store.Pool().QueryRow(ctx, "SELECT fence FROM streams WHERE id = $1", id).Scan(&fence); err != nil {
		return stream.Next, errors.Join(repo.ErrUnavailable, err)
	}
	time.Sleep(10 * time.Millisecond) // pace: here it is likely to be stopped
	if fence != stream.Fence {
		return stream.Next, &repo.FencedError{}
	}
	err := n.store.Pool().QueryRow(ctx, `WITH locked AS (
			SELECT FROM streams WHERE id = $1 FOR NO KEY UPDATE
		), stream AS (
			SELECT coalesce(max(sequence) + 1, 0) AS first FROM stream_parts WHERE stream_id = $1
		), added AS (
			INSERT INTO stream_parts (stream_id, sequence, data)
			SELECT $1, first + place - 1, data FROM locked, stream, unnest($2::bytea[]) WITH ORDINALITY AS part (data, place)
		) SELECT first + cardinality($2::bytea[]) FROM stream`, id, parts).Scan(&next)
	if err != nil {
		return stream.Next, errors.Join(repo.ErrUnavailable, err)
	}
	return next, nil
}

// streamWriters is a process that writes to streams.
type streamWriters struct {
	command *exec.Cmd
	input   io.Closer
	ended   chan struct{} // its output has

	mu      sync.Mutex
	wrote   map[string]map[int64]int64 // of each key: the fences of acknowledged parts, by sequence
	refused map[string]bool
}

func startStreamWriters(ctx context.Context, t *testing.T, task streamTask) *streamWriters {
	t.Helper()
	w := &streamWriters{
		command: pgtest.Again(ctx, streamTaskVariable, task), ended: make(chan struct{}),
		wrote: map[string]map[int64]int64{}, refused: map[string]bool{},
	}
	w.command.Stderr = os.Stderr
	output, err := w.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if w.input, err = w.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := w.command.Start(); err != nil {
		t.Fatal(err)
	}
	go w.read(output)
	return w
}

func (w *streamWriters) read(output io.Reader) {
	defer close(w.ended)
	for lines := bufio.NewScanner(output); lines.Scan(); {
		var verb, key string
		var fence, sequence int64
		if _, err := fmt.Sscan(lines.Text(), &verb, &key, &fence, &sequence); err != nil {
			return // the process was killed while it wrote the line
		}
		w.mu.Lock()
		if w.wrote[key] == nil {
			w.wrote[key] = map[int64]int64{}
		}
		if w.refused[key] = verb == "refused"; !w.refused[key] {
			w.wrote[key][sequence] = fence
		}
		w.mu.Unlock()
	}
}

// await waits until the process has written parts to each of the streams.
func (w *streamWriters) await(t *testing.T, keys []string, parts int) {
	t.Helper()
	await.For(t, "the process has written to each stream", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, key := range keys {
			if len(w.wrote[key]) < parts {
				return false
			}
		}
		return true
	})
}

// parts returns how many parts are acknowledged.
func (w *streamWriters) parts() (count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wrote := range w.wrote {
		count += len(wrote)
	}
	return count
}

// end waits for the process. Ended: by a signal, or by itself.
func (w *streamWriters) end(t *testing.T, killed bool) {
	t.Helper()
	<-w.ended
	if err := w.command.Wait(); (err != nil) != killed {
		t.Errorf("the process ended with %v", err)
	}
}
