package repotest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
)

func streamsRaceTests() []test {
	return []test{
		{"OneWriter", testStreamsOneWriter},
		{"Naive", testStreamsNaive},
		{"Ahead", testStreamsAhead},
		{"Openers", testStreamsOpeners},
		{"Resume", testStreamsResume},
		{"Many", testStreamsMany},
		{"Ends", testStreamsRacingEnds},
	}
}

// Writers open one stream again and again, and each appends until it is refused. What is
// stored is what was acknowledged, in order: parts of a fence come after those of smaller
// ones. (testStreamsNaive shows what becomes of a fence that is looked at first.)
// Guarantee: Streams: Only the latest opener writes.
func testStreamsOneWriter(t *testing.T, store repo.Store) {
	const writers, rounds = 8, 6
	asked := newStream()
	first := openStream(t, store, asked)
	var mu sync.Mutex
	acknowledged := map[int64]string{}
	together(writers, func(worker int) {
		for round := range rounds {
			stream, err := store.Streams().Open(t.Context(), asked)
			if err != nil {
				t.Error(err)
				return
			}
			for range 1 + rand.N(8) {
				part := fmt.Sprintf("%d/%d/%d", stream.Fence, worker, round)
				next, err := store.Streams().Append(t.Context(), stream, []byte(part))
				if _, fenced := errors.AsType[*repo.FencedError](err); fenced {
					break
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acknowledged[stream.Next] = part
				mu.Unlock()
				stream.Next = next
			}
		}
	})
	end := openStream(t, store, asked)
	endStream(t, store, end, repo.StreamFinished)
	parts, err := readParts(store.Streams().Follow(t.Context(), asked.Key, repo.StreamPosition{StreamID: first.ID}), math.MaxInt)
	if err != nil || len(parts) != len(acknowledged) || int64(len(parts)) != end.Next {
		t.Fatalf("read %d parts, and %v; %d were acknowledged, and Next is %d", len(parts), err, len(acknowledged), end.Next)
	}
	last := int64(0)
	for _, part := range parts {
		var fence int64
		if _, err := fmt.Sscanf(string(part.Data), "%d/", &fence); err != nil || fence < last || acknowledged[part.Sequence] != string(part.Data) {
			t.Errorf("part %d is %s, acknowledged as %s, after fence %d", part.Sequence, part.Data, acknowledged[part.Sequence], last)
		}
		last = fence
	}
}

// As testStreamsOneWriter, with writers that do not wait for each part: what one has flushed
// is stored, and all that is stored of it are its first parts, in order.
// Guarantee: Streams: A `PartWriter` stores each part once, in order.
func testStreamsAhead(t *testing.T, store repo.Store) {
	const writers, rounds = 8, 6
	asked := newStream()
	first := openStream(t, store, asked)
	var mu sync.Mutex
	flushed := map[int64]int{} // of each fence
	together(writers, func(int) {
		for range rounds {
			stream, err := store.Streams().Open(t.Context(), asked)
			writer := live.NewPartWriter(t.Context(), store.Streams(), stream)
			for n, count := 0, 1+rand.N(40); n < count && err == nil; n++ {
				err = writer.Write(t.Context(), fmt.Appendf(nil, "%d/%d", stream.Fence, n))
				if err == nil && rand.N(4) == 0 {
					if err = writer.Flush(t.Context()); err == nil {
						mu.Lock()
						flushed[stream.Fence] = n + 1
						mu.Unlock()
					}
				}
			}
			if _, fenced := errors.AsType[*repo.FencedError](err); err != nil && !fenced {
				t.Error(err)
			}
			_ = writer.Flush(t.Context()) // nothing is under way any more
		}
	})
	last := live.NewPartWriter(t.Context(), store.Streams(), openStream(t, store, asked))
	for n := range 50 { // which are not refused
		if err := last.Write(t.Context(), fmt.Appendf(nil, "%d/%d", last.Stream().Fence, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := last.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	flushed[last.Stream().Fence] = 50
	stored, latest := map[int64]int{}, int64(0)
	for part, err := range store.Streams().Follow(t.Context(), asked.Key, repo.StreamPosition{StreamID: first.ID}) {
		var fence int64
		var n int
		if err == nil {
			_, err = fmt.Sscanf(string(part.Data), "%d/%d", &fence, &n)
		}
		if err != nil {
			t.Fatal(err)
		}
		if fence < latest || n != stored[fence] {
			t.Fatalf("part %d of fence %d follows %d of its, and others of %d", n, fence, stored[fence], latest)
		}
		latest, stored[fence] = fence, n+1
	}
	for fence, count := range flushed {
		if stored[fence] < count {
			t.Errorf("of fence %d %d parts are stored, and %d were flushed", fence, stored[fence], count)
		}
	}
}

// Writers that look at the fence first, and write then, write after a later one: the
// naive way, with a session for a stream.
func testStreamsNaive(t *testing.T, store repo.Store) {
	const writers, rounds, tries = 6, 5, 50
	for try := range tries {
		id, fences := create(t, store.Sessions()), shared()
		together(writers, func(int) {
			for range rounds {
				opened, err := store.State().Change(t.Context(), []repo.StateChange{{Scope: fences, Key: "fence", Op: repo.StateIncrement, By: 1}})
				if err != nil {
					t.Error(err)
					return
				}
				fence := opened[0].Version
				for range 4 {
					current, err := store.State().Get(t.Context(), fences, "fence")
					if err != nil || current.Version != fence {
						break
					}
					time.Sleep(rand.N(time.Duration(try+1) * 2 * time.Millisecond)) // pace: a round trip, longer for some than for others
					appendTo(t, store.Sessions(), id, user(strconv.FormatInt(fence, 10)))
				}
			}
		})
		last := int64(0)
		for _, message := range readAll(t, store.Sessions(), id) {
			fence, err := strconv.ParseInt(message.Content, 10, 64)
			if err != nil || fence < last {
				return
			}
			last = fence
		}
	}
	t.Error("the naive way was never caught: this test would not find a writer that is not refused")
}

// Writers that open a key at once get one stream, and different fences, the largest of
// which alone writes.
func testStreamsOpeners(t *testing.T, store repo.Store) {
	asked := newStream()
	opened := make([]repo.Stream, workers)
	together(workers, func(worker int) {
		stream, err := store.Streams().Open(t.Context(), asked)
		if err != nil {
			t.Error(err)
		}
		opened[worker] = stream
	})
	newest := getStream(t, store, asked.Key)
	fences := map[int64]bool{}
	for _, stream := range opened {
		fences[stream.Fence] = true
		if stream.ID != newest.ID || stream.Fence > newest.Fence {
			t.Errorf("opened %+v, stored %+v", stream, newest)
		}
		if stream.Fence != newest.Fence {
			_, err := store.Streams().Append(t.Context(), stream, []byte("x"))
			wantStreamFenced(t, err, stream)
			continue
		}
		addParts(t, store, &stream, []byte("x"))
	}
	if len(fences) != workers || !fences[newest.Fence] {
		t.Errorf("%d openers got %d fences", workers, len(fences))
	}
}

// Readers come and go while parts are appended, each going on where it stopped. None
// misses a part or gets one twice, and each gets the end.
// Guarantee: Streams: A follower gets each part once, in order, and how the stream ended.
func testStreamsResume(t *testing.T, store repo.Store) {
	const readers, total = 12, 300
	ctx, cancel := context.WithCancel(await.Context(t))
	defer cancel()
	stream, parts := openStream(t, store, newStream()), someParts(total)
	key := stream.Key
	together(readers+1, func(worker int) {
		if worker == readers {
			for at := 0; at < total; {
				count := min(1+rand.N(5), total-at)
				next, err := store.Streams().Append(ctx, stream, parts[at:at+count]...)
				if err != nil {
					t.Error(err)
					cancel()
					return
				}
				stream.Next, at = next, at+count
			}
			if err := store.Streams().Finish(ctx, stream); err != nil {
				t.Error(err)
				cancel()
			}
			return
		}
		var got []repo.StreamPart
		for position := (repo.StreamPosition{}); ; {
			most := 1 + rand.N(100)
			some, err := readParts(store.Streams().Follow(ctx, key, position), most)
			if got = append(got, some...); len(some) > 0 {
				position = some[len(some)-1].Next()
			}
			if err != nil {
				t.Errorf("reader %d, after %d parts: %v", worker, len(got), err)
				return
			}
			if len(some) < most {
				break // the end
			}
		}
		wantParts(t, got, stream, 0, parts)
	})
}

// Many streams are written to at once, each by one writer, which sends some appends again.
func testStreamsMany(t *testing.T, store repo.Store) {
	const streams, appends = 24, 12
	together(streams, func(int) {
		stream, err := store.Streams().Open(t.Context(), newStream())
		if err != nil {
			t.Error(err)
			return
		}
		parts := someParts(appends)
		for i := range parts {
			for again := range 1 + i%3 {
				next, err := store.Streams().Append(t.Context(), stream, parts[i])
				if err != nil || next != int64(i)+1 {
					t.Errorf("append %d, attempt %d: %d, %v", i, again, next, err)
					return
				}
			}
			stream.Next = int64(i) + 1
		}
		if err := store.Streams().Finish(t.Context(), stream); err != nil {
			t.Error(err)
		}
		got, err := readParts(store.Streams().Follow(t.Context(), stream.Key, repo.StreamPosition{}), math.MaxInt)
		if err != nil {
			t.Error(err)
		}
		wantParts(t, got, stream, 0, parts)
	})
}

// If callers finish and fail a stream at once, one of them ends it. Appends come before
// it or are refused.
func testStreamsRacingEnds(t *testing.T, store repo.Store) {
	for range 10 {
		stream := openStream(t, store, newStream())
		reader := followParts(t, store, stream.Key, repo.StreamPosition{})
		var finished, failed, appended counter
		together(6, func(worker int) {
			var err error
			switch worker % 3 {
			case 0:
				err = store.Streams().Finish(t.Context(), stream)
			case 1:
				err = store.Streams().Fail(t.Context(), stream, "why")
			default:
				time.Sleep(time.Duration(rand.N(2000)) * time.Microsecond) // pace: before or after the end
				_, err = store.Streams().Append(t.Context(), stream, []byte("x"))
			}
			if _, ended := errors.AsType[*repo.RefusedError](err); err != nil && !ended {
				t.Error(err)
			}
			if err == nil {
				[]*counter{&finished, &failed, &appended}[worker%3].add()
			}
		})
		if (finished.get() == 0) == (failed.get() == 0) {
			t.Errorf("%d have finished it, %d failed", finished.get(), failed.get())
		}
		want := [][]byte{[]byte("x")}
		if appended.get() == 0 {
			want = nil
		}
		reader.wants(stream, 0, want...)
		if err := reader.end(); (err != nil) != (failed.get() > 0) {
			t.Errorf("Follow ended with %v", err)
		}
	}
}
