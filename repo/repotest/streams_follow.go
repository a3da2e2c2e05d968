package repotest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
)

func streamsFollowTests() []test {
	return []test{
		onPlans("From", testStreamsFollowFrom),
		onPlans("Long", testStreamsFollowLong),
		onPlans("LargeParts", testStreamsLargeParts),
		onPlans("Asked", testFollowersAsked),
		onPlans("Ends", testStreamsFollowEnds),
		onPlans("EndIsAwaited", testStreamsFollowEndIsAwaited),
		onPlans("Newer", testStreamsFollowNewer),
		onPlans("Refused", testStreamsFollowRefused),
		onPlans("Context", testStreamsFollowContext),
		onPlans("Own", testStreamsFollowOwn),
		{"Transaction", testStreamsFollowTransaction},
		{"InTransaction", testStreamsFollowInTransaction},
		{"Session", testStreamsFollowSession},
		{"Restart", testStreamsRestart},
		{"Close", testStreamsFollowClose},
		{"Expiry", testStreamsExpiry},
		{"Removal", testStreamsRemoval},
		{"RemovalShowsNoOlder", testStreamsRemovalShowsNoOlder},
	}
}

// readParts reads parts until the loop ends, or there are count of them.
func readParts(parts iter.Seq2[repo.StreamPart, error], count int) (read []repo.StreamPart, err error) {
	for part, failed := range parts {
		if err != nil || failed != nil && !reflect.DeepEqual(part, repo.StreamPart{}) {
			return read, errors.Join(errors.New("it went on after its error, or the error came with a part"), err, failed)
		}
		if err = failed; failed != nil {
			continue
		}
		if read = append(read, part); len(read) == count {
			break
		}
	}
	return read, err
}

// wantParts checks which parts of a stream were read, from a sequence on.
func wantParts(t *testing.T, got []repo.StreamPart, stream repo.Stream, from int64, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("read %d parts, want %d", len(got), len(want))
		return
	}
	for i, part := range got {
		if part.StreamID != stream.ID || part.Sequence != from+int64(i) || !bytes.Equal(part.Data, want[i]) {
			t.Errorf("part %d is %d of stream %s: %s; want %s", from+int64(i), part.Sequence, part.StreamID, brief(part.Data), brief(want[i]))
			return
		}
	}
}

// streaming is a goroutine that follows a stream.
type streaming struct {
	t     *testing.T
	parts chan repo.StreamPart
	ended chan error
	stop  context.CancelFunc
}

func followParts(t *testing.T, r repo.Repositories, key string, from repo.StreamPosition) *streaming {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	f := &streaming{t, make(chan repo.StreamPart, 10_000), make(chan error, 1), stop}
	t.Cleanup(stop)
	go func() {
		_, err := readParts(func(yield func(repo.StreamPart, error) bool) {
			for part, err := range r.Streams().Follow(ctx, key, from) {
				if err == nil {
					f.parts <- part
				}
				if !yield(part, err) {
					return
				}
			}
		}, math.MaxInt)
		f.ended <- err
	}()
	return f
}

// wants checks which parts come next.
func (f *streaming) wants(stream repo.Stream, from int64, data ...[]byte) {
	f.t.Helper()
	var got []repo.StreamPart
	for range data {
		got = append(got, await.Value(f.t, "the next part", f.parts))
	}
	wantParts(f.t, got, stream, from, data)
}

// end returns the error that ends it, before which no part comes.
func (f *streaming) end() error {
	f.t.Helper()
	err := await.Value(f.t, "Follow ends", f.ended)
	select {
	case part := <-f.parts:
		f.t.Errorf("part %d came before the end", part.Sequence)
	default:
	}
	return err
}

func (f *streaming) wantFinished() {
	f.t.Helper()
	if err := f.end(); err != nil {
		f.t.Errorf("Follow ended with %v", err)
	}
}

func wantStreamFailed(t *testing.T, err error, stream repo.Stream, reason string) {
	t.Helper()
	if got, ok := wantError[*repo.StreamFailedError](t, err, repo.ErrStreamFailed); ok {
		wantEqual(t, got, repo.StreamFailedError{Key: stream.Key, ID: stream.ID, Reason: reason})
	}
}

func wantBeyond(t *testing.T, err error, stream repo.Stream, from int64) {
	t.Helper()
	if got, ok := wantError[*repo.SequenceConflictError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, repo.SequenceConflictError{Kind: "stream", Name: stream.Key, ID: stream.ID, Expected: from, Next: stream.Next})
	}
}

// Parts are read from any place on, and come as they are appended.
func testStreamsFollowFrom(t *testing.T, r repo.Repositories) {
	stream := openStream(t, r, newStream())
	parts := someParts(3)
	addParts(t, r, &stream, parts...)
	whole := followParts(t, r, stream.Key, repo.StreamPosition{})
	rest := followParts(t, r, stream.Key, repo.StreamPosition{StreamID: stream.ID, Sequence: 2})
	newest := followParts(t, r, stream.Key, repo.StreamPosition{Sequence: 2})
	beyond := followParts(t, r, stream.Key, repo.StreamPosition{StreamID: stream.ID, Sequence: 5})
	whole.wants(stream, 0, parts...)
	rest.wants(stream, 2, parts[2:]...)
	newest.wants(stream, 2, parts[2:]...)
	for range 3 {
		from := stream.Next
		more := someParts(2)
		addParts(t, r, &stream, more...)
		for _, f := range []*streaming{whole, rest, newest} {
			f.wants(stream, from, more...)
		}
		if from >= 5 {
			beyond.wants(stream, from, more...)
		}
	}
	endStream(t, r, stream, repo.StreamFinished)
	for _, f := range []*streaming{whole, rest, newest, beyond} {
		f.wantFinished()
	}
}

// Long streams are read in chunks, which differ in size.
func testStreamsFollowLong(t *testing.T, r repo.Repositories) {
	stream := openStream(t, r, newStream())
	all := someParts(1500)
	for i := 59; i < len(all); i += 700 {
		all[i] = bytes.Repeat([]byte("x"), 2<<20)
	}
	for first := 0; first < len(all); first += 500 {
		addParts(t, r, &stream, all[first:first+500]...)
	}
	endStream(t, r, stream, repo.StreamFinished)
	together(3, func(int) {
		got, err := readParts(r.Streams().Follow(t.Context(), stream.Key, repo.StreamPosition{}), math.MaxInt)
		if err != nil {
			t.Error(err)
		}
		wantParts(t, got, stream, 0, all)
	})
}

// Parts of any size that is allowed are stored, found again and followed.
func testStreamsLargeParts(t *testing.T, r repo.Repositories) {
	stream, parts := openStream(t, r, newStream()), [][]byte{
		bytes.Repeat([]byte{0, 0xff}, repo.MaxPartBytes/2), []byte("small"), bytes.Repeat([]byte("x"), repo.MaxPartBytes-1), []byte("y"),
	}
	for _, some := range [][][]byte{parts[:1], parts[1:2], parts[2:]} {
		begin := stream
		addParts(t, r, &stream, some...)
		addParts(t, r, &begin, some...)
	}
	endStream(t, r, stream, repo.StreamFinished)
	got, err := readParts(r.Streams().Follow(t.Context(), stream.Key, repo.StreamPosition{}), math.MaxInt)
	if err != nil {
		t.Error(err)
	}
	wantParts(t, got, stream, 0, parts)
}

// Followers of streams and sessions return one after the other what is yielded, as soon as it is there.
func testFollowersAsked(t *testing.T, r repo.Repositories) {
	ctx, session, stream := t.Context(), create(t, r.Sessions()), openStream(t, r, newStream())
	messages := adapter.FollowMessages(ctx, r.Sessions(), session, 1)
	parts := adapter.FollowParts(ctx, r.Streams(), stream.Key, repo.StreamPosition{})
	appended := appendTo(t, r.Sessions(), session, user("a"), user("b"))
	for i := range int64(3) {
		if i > 0 {
			appended = append(appended, appendTo(t, r.Sessions(), session, user("c"))...)
		}
		message, err := messages.Next(ctx)
		wantMessages(t, []repo.Message{must(t, message, err)}, appended[i+1:i+2])
		addParts(t, r, &stream, []byte{byte(i)})
		part, err := parts.Next(ctx)
		if must(t, part, err); part.StreamID != stream.ID || part.Sequence != i || part.Data[0] != byte(i) {
			t.Errorf("part %d is %+v", i, part)
		}
	}
	endStream(t, r, stream, repo.StreamFinished)
	if _, err := parts.Next(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("after the last part: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond) // short: nothing comes, so it ends however late
	defer cancel()
	if _, err := messages.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a context that ends: %v", err)
	}
	for _, follower := range []io.Closer{messages, parts} {
		if err := follower.Close(); err != nil {
			t.Error(err)
		}
	}
	missing := adapter.FollowMessages(ctx, r.Sessions(), repo.NewID(), 0)
	defer func() { _ = missing.Close() }()
	for range 2 {
		_, err := missing.Next(ctx)
		_, _ = wantError[*repo.NotFoundError](t, err, repo.ErrNotFound)
	}
}

// A stream that has ended is read to its end, from everywhere before it.
func testStreamsFollowEnds(t *testing.T, r repo.Repositories) {
	for _, status := range []repo.StreamStatus{repo.StreamFinished, repo.StreamFailed} {
		for _, count := range []int{0, 3} {
			stream, parts := openStream(t, r, newStream()), someParts(max(count, 1))[:count]
			if count > 0 {
				addParts(t, r, &stream, parts...)
			}
			endStream(t, r, stream, status)
			for _, from := range []int64{0, 2, 3, 4, math.MaxInt64} {
				for _, id := range []repo.ID{{}, stream.ID} {
					got, err := readParts(r.Streams().Follow(t.Context(), stream.Key, repo.StreamPosition{StreamID: id, Sequence: from}), math.MaxInt)
					wantParts(t, got, stream, from, parts[min(from, int64(count)):])
					switch {
					case from > int64(count):
						wantBeyond(t, err, stream, from)
					case status == repo.StreamFailed:
						wantStreamFailed(t, err, stream, "why")
					case err != nil:
						t.Error(err)
					}
				}
			}
		}
	}
}

// Waiting readers get the end.
func testStreamsFollowEndIsAwaited(t *testing.T, r repo.Repositories) {
	for _, status := range []repo.StreamStatus{repo.StreamFinished, repo.StreamFailed} {
		stream, parts := openStream(t, r, newStream()), someParts(2)
		addParts(t, r, &stream, parts...)
		reader, beyond := followParts(t, r, stream.Key, repo.StreamPosition{}), followParts(t, r, stream.Key, repo.StreamPosition{Sequence: 9})
		reader.wants(stream, 0, parts...)
		time.Sleep(20 * time.Millisecond) // pace: they may be waiting by now
		endStream(t, r, stream, status)
		if err := reader.end(); status == repo.StreamFailed {
			wantStreamFailed(t, err, stream, "why")
		} else if err != nil {
			t.Errorf("Follow ended with %v", err)
		}
		wantBeyond(t, beyond.end(), stream, 9)
	}
}

// Readers of a stream get its end, although another one has the key by then.
func testStreamsFollowNewer(t *testing.T, r repo.Repositories) {
	asked := newStream()
	first, parts := openStream(t, r, asked), someParts(2)
	addParts(t, r, &first, parts...)
	reader := followParts(t, r, asked.Key, repo.StreamPosition{})
	reader.wants(first, 0, parts...)
	endStream(t, r, first, repo.StreamFinished)
	newer, newParts := openStream(t, r, asked), someParts(4)
	addParts(t, r, &newer, newParts...)
	reader.wantFinished()
	got, err := readParts(r.Streams().Follow(t.Context(), asked.Key, repo.StreamPosition{StreamID: first.ID, Sequence: 1}), math.MaxInt)
	wantParts(t, must(t, got, err), first, 1, parts[1:])
	got, err = readParts(r.Streams().Follow(t.Context(), asked.Key, repo.StreamPosition{}), 4)
	wantParts(t, must(t, got, err), newer, 0, newParts)
	if next := got[1].Next(); next != (repo.StreamPosition{StreamID: newer.ID, Sequence: 2}) {
		t.Errorf("after part 1 comes %+v", next)
	}
}

func testStreamsFollowRefused(t *testing.T, r repo.Repositories) {
	follow := func(key string, from repo.StreamPosition) error {
		got, err := readParts(r.Streams().Follow(t.Context(), key, from), 1)
		if len(got) > 0 {
			t.Errorf("read part %d", got[0].Sequence)
		}
		return err
	}
	stream := openStream(t, r, newStream())
	wantInvalid(t, follow(stream.Key, repo.StreamPosition{Sequence: -1}), "from.sequence")
	for _, key := range []string{"", "\xff", "a\x00b", string(make([]byte, repo.MaxKeyBytes+1))} {
		wantInvalid(t, follow(key, repo.StreamPosition{}), "key")
	}
	missing := repo.Stream{Key: randomName()}
	wantNoStream(t, follow(missing.Key, repo.StreamPosition{}), missing.Key)
	// A reader that has read of it before learns that it is gone.
	wantStreamGone(t, follow(missing.Key, repo.StreamPosition{Sequence: 1}), missing)
	missing.ID = repo.NewID()
	wantStreamGone(t, follow(missing.Key, repo.StreamPosition{StreamID: missing.ID}), missing)
	// It is another key's.
	missing.ID = stream.ID
	wantStreamGone(t, follow(missing.Key, repo.StreamPosition{StreamID: stream.ID}), missing)
}

func testStreamsFollowContext(t *testing.T, r repo.Repositories) {
	stream := openStream(t, r, newStream())
	addParts(t, r, &stream, someParts(10)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count, ended := 0, error(nil)
	for _, err := range r.Streams().Follow(ctx, stream.Key, repo.StreamPosition{}) {
		if ended = err; err == nil {
			count++
			cancel()
		}
	}
	if count != 1 || !errors.Is(ended, context.Canceled) {
		t.Errorf("after %d parts Follow ended with %v", count, ended)
	}
	waiting := followParts(t, r, stream.Key, repo.StreamPosition{Sequence: 10})
	time.Sleep(10 * time.Millisecond) // pace: it may be waiting by now
	waiting.stop()
	if err := waiting.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("Follow ended with %v", err)
	}
}

// Each reader may change what it gets.
func testStreamsFollowOwn(t *testing.T, r repo.Repositories) {
	stream, parts := openStream(t, r, newStream()), someParts(20)
	addParts(t, r, &stream, parts...)
	together(8, func(int) {
		got, err := readParts(r.Streams().Follow(t.Context(), stream.Key, repo.StreamPosition{}), 20)
		if err != nil {
			t.Error(err)
			return
		}
		wantParts(t, got, stream, 0, parts)
		for _, part := range got {
			overwrite(part.Data)
			if len(part.Data) != cap(part.Data) {
				_ = append(part.Data, 'x') // nor is there anything behind it
			}
		}
	})
}

// What a transaction writes is there when it is committed, and not if it is rolled back.
func testStreamsFollowTransaction(t *testing.T, store repo.Store) {
	stream, parts, failure := openStream(t, store, newStream()), someParts(3), errors.New("failure")
	addParts(t, store, &stream, parts[:1]...)
	reader := followParts(t, store, stream.Key, repo.StreamPosition{})
	reader.wants(stream, 0, parts[0])
	var dropped repo.Stream
	if err := store.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
		inside := stream
		addParts(t, tx, &inside, someParts(2)...)
		endStream(t, tx, inside, repo.StreamFailed)
		dropped = openStream(t, tx, newStream())
		addParts(t, tx, &dropped, someParts(2)...)
		return failure
	}); !errors.Is(err, failure) {
		t.Error(err)
	}
	_, err := store.Streams().Get(t.Context(), dropped.Key)
	wantNoStream(t, err, dropped.Key)
	addParts(t, store, &stream, parts[1])
	reader.wants(stream, 1, parts[1])
	id := create(t, store.Sessions())
	if err := store.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
		addParts(t, tx, &stream, parts[2])
		endStream(t, tx, stream, repo.StreamFinished)
		appendTo(t, tx.Sessions(), id, user("the whole answer"))
		return nil
	}); err != nil {
		t.Error(err)
	}
	reader.wants(stream, 2, parts[2])
	reader.wantFinished()
	wantCount(t, store.Sessions(), id, 1)
}

func testStreamsFollowInTransaction(t *testing.T, store repo.Store) {
	stream := openStream(t, store, newStream())
	if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		_, err := readParts(tx.Streams().Follow(ctx, stream.Key, repo.StreamPosition{}), 1)
		wantInvalid(t, err, "transaction")
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func isInside(err error) bool {
	invalid, is := errors.AsType[*repo.InvalidError](err)
	return is && invalid.Field == "context"
}

func testStreamsFollowClose(t *testing.T, store repo.Store) {
	stream, parts := openStream(t, store, newStream()), someParts(1)
	addParts(t, store, &stream, parts...)
	reader := followParts(t, store, stream.Key, repo.StreamPosition{})
	reader.wants(stream, 0, parts...)
	closeStore(t, store)
	if err := reader.end(); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("Follow ended with %v", err)
	}
}

// awaitExpiry waits until a stream has expired.
func awaitExpiry(t *testing.T, r repo.Repositories, key string) {
	t.Helper()
	await.For(t, "the stream expires", func() bool {
		_, err := r.Streams().Get(t.Context(), key)
		return errors.Is(err, repo.ErrGone) || errors.Is(err, repo.ErrNotFound)
	})
}

// expiring opens a stream that is to expire, and appends parts. The life may be too short for that on a machine that is
// busy: then it is tried again, with a longer one.
func expiring(t *testing.T, r repo.Repositories, asked repo.NewStream, parts ...[]byte) repo.Stream {
	t.Helper()
	for asked.TTL = livesOf(r).ofLife(repo.MinStreamTTL); ; asked.TTL *= 2 {
		stream := openStream(t, r, asked)
		next, err := r.Streams().Append(t.Context(), stream, parts...)
		if err == nil {
			stream.Next = next
			return stream
		}
		wantStreamGone(t, err, stream)
	}
}

// What has expired is gone for all, and waiting readers are told.
func testStreamsExpiry(t *testing.T, store repo.Store) {
	asked := newStream()
	stream := expiring(t, store, asked, []byte("x"))
	reader := followParts(t, store, asked.Key, repo.StreamPosition{StreamID: stream.ID, Sequence: 1})
	time.Sleep(10 * time.Millisecond) // pace: it may be waiting by now
	livesOf(store).elapse(t, Aged{Streams: []repo.Stream{stream}})
	wantStreamGone(t, reader.end(), stream) // it is not told
	f := newFixture(t, store, spaceOf(store))
	f.made["stream"] = stream
	for _, method := range []string{"Get", "Follow", "Append", "Delete"} {
		for _, c := range callsOf("Streams." + method) {
			if _, err := c.run(t.Context(), store, c.args(f)); !errors.Is(err, repo.ErrGone) && !errors.Is(err, repo.ErrNotFound) {
				t.Errorf("%s gave %v", c.name, err)
			}
		}
	}
	_, err := readParts(store.Streams().Follow(t.Context(), asked.Key, repo.StreamPosition{StreamID: stream.ID, Sequence: 1}), 1)
	wantStreamGone(t, err, stream)
	testLateAnswer(t, store, stream, nil)
	again := openStream(t, store, asked)
	if again.ID == stream.ID || again.Fence <= stream.Fence || again.Next != 0 {
		t.Errorf("opened %+v after %+v, which had expired", again, stream)
	}
	testLateAnswer(t, store, stream, repo.ErrConflict) // another one has locked it
	_, err = store.Streams().Append(t.Context(), stream, []byte("x"))
	wantStreamGone(t, err, stream)
}

// A writer whose stream expired in silence stores the answer with the stream's end, also when the stream was removed, unless another
// writer has begun.
// Guarantee: Streams: A stream that has expired refuses no answer, unless another has begun.
func testLateAnswer(t *testing.T, store repo.Store, stream repo.Stream, want error) {
	t.Helper()
	session := create(t, store.Sessions())
	for _, end := range []func(repo.Streams) error{
		func(s repo.Streams) error { return s.Finish(t.Context(), stream) },
		func(s repo.Streams) error { return s.Fail(t.Context(), stream, "x") },
	} {
		err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			_, err := tx.Sessions().Append(ctx, session, user("the answer"))
			return cmp.Or(err, end(tx.Streams()))
		})
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if _, _, err := store.Streams().RemoveExpired(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	wantCount(t, store.Sessions(), session, map[bool]int{true: 2}[want == nil])
}

// Appends without parts renew a stream, and add nothing.
func testStreamsRenewal(t *testing.T, r repo.Repositories) {
	asked := newStream()
	asked.TTL = time.Hour
	stream := openStream(t, r, asked)
	if stream.TTL != time.Hour || getStream(t, r, asked.Key).TTL != time.Hour {
		t.Errorf("the TTL is %v", stream.TTL)
	}
	other := openStream(t, r, newStream())
	for range 2 {
		addParts(t, r, &stream, someParts(1)...)
		next, err := r.Streams().Append(t.Context(), stream)
		if must(t, next, err) != stream.Next || getStream(t, r, asked.Key).Next != stream.Next {
			t.Errorf("%d is next after a renewal, want %d", next, stream.Next)
		}
	}
	behind := stream
	behind.Next--
	_, err := r.Streams().Append(t.Context(), behind)
	_, _ = wantError[*repo.SequenceConflictError](t, err, repo.ErrConflict)
	endStream(t, r, stream, repo.StreamFinished)
	_, err = r.Streams().Append(t.Context(), stream)
	wantStreamEnded(t, err, stream, repo.StreamFinished)
	stream, old := openStream(t, r, repo.NewStream{Key: other.Key, Owner: "b"}), other
	_, err = r.Streams().Append(t.Context(), old)
	_, _ = wantError[*repo.FencedError](t, err, repo.ErrConflict)
	_, err = r.Streams().Append(t.Context(), stream)
	must(t, stream, err)
}

// What has expired is removed in bounded steps, and nothing else is.
// Guarantee: Streams: What has expired is removed, and nothing else.
func testStreamsRemoval(t *testing.T, store repo.Store) {
	kept, keptParts := openStream(t, store, newStream()), someParts(5)
	addParts(t, store, &kept, keptParts...)
	var doomed []repo.Stream
	for range 3 {
		doomed = append(doomed, expiring(t, store, newStream(), someParts(7)...))
	}
	livesOf(store).elapse(t, Aged{Streams: doomed})
	last := doomed[2].Key
	awaitExpiry(t, store, last)
	// Others may be at it, too, if the store's data are not this test's alone.
	await.For(t, "the streams are removed", func() bool {
		count, parts, err := store.Streams().RemoveExpired(t.Context(), 4)
		if must(t, count, err); parts > 4 || count > 4 {
			t.Errorf("removed %d streams and %d parts, the limit is 4", count, parts)
		}
		_, err = store.Streams().Get(t.Context(), last)
		if errors.Is(err, repo.ErrGone) {
			return false
		}
		wantNoStream(t, err, last)
		return true
	})
	got, err := readParts(store.Streams().Follow(t.Context(), kept.Key, repo.StreamPosition{}), 5)
	wantParts(t, must(t, got, err), kept, 0, keptParts)
}

// The removal of the newest stream of a key does not make the one before it, which lives
// longer, the newest one.
func testStreamsRemovalShowsNoOlder(t *testing.T, store repo.Store) {
	asked := newStream()
	older, parts := openStream(t, store, asked), someParts(3)
	addParts(t, store, &older, parts...)
	endStream(t, store, older, repo.StreamFinished)
	newer := expiring(t, store, asked, someParts(3)...)
	livesOf(store).elapse(t, Aged{Streams: []repo.Stream{newer}})
	awaitExpiry(t, store, asked.Key)
	for range 10 {
		count, parts, err := store.Streams().RemoveExpired(t.Context(), 2)
		if must(t, count, err)+parts == 0 {
			break
		}
	}
	_, err := store.Streams().Get(t.Context(), asked.Key)
	wantStreamGone(t, err, newer)
	_, err = readParts(store.Streams().Follow(t.Context(), asked.Key, repo.StreamPosition{}), 1)
	wantStreamGone(t, err, newer)
	got, err := readParts(store.Streams().Follow(t.Context(), asked.Key, repo.StreamPosition{StreamID: older.ID}), 3)
	wantParts(t, must(t, got, err), older, 0, parts)
}
