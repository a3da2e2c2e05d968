package repotest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// streamsTests run in a transaction, too. What is read there is the stream's row.
func streamsTests() []test {
	return []test{
		onPlans("Open", testStreamsOpen),
		onPlans("OpenAgain", testStreamsOpenAgain),
		onPlans("OpenAfterEnd", testStreamsOpenAfterEnd),
		onPlans("Append", testStreamsAppend),
		onPlans("AppendAgain", testStreamsAppendAgain),
		onPlans("Ends", testStreamsEnds),
		onPlans("Missing", testStreamsMissing),
		onPlans("Renewal", testStreamsRenewal),
		onPlans("Keys", testStreamsKeys),
		onPlans("Invalid", testStreamsInvalid),
		onPlans("RemoveNothing", testStreamsRemoveNothing),
		onPlans("Session", testStreamsSession),
		onPlans("List", testStreamsList),
		onPlans("Delete", testStreamsDelete),
		onPlans("DeletedSession", testStreamsDeletedSession),
	}
}

// newStream asks for a stream that no other test asks for.
func newStream() repo.NewStream {
	return repo.NewStream{Key: randomName(), Owner: randomName(), TTL: time.Hour}
}

func openStream(t *testing.T, r repo.Repositories, stream repo.NewStream) repo.Stream {
	t.Helper()
	opened, err := r.Streams().Open(t.Context(), stream)
	return must(t, opened, err)
}

func getStream(t *testing.T, r repo.Repositories, key string) repo.Stream {
	t.Helper()
	stream, err := r.Streams().Get(t.Context(), key)
	return must(t, stream, err)
}

// addParts appends parts, and advances the writer's stream.
func addParts(t *testing.T, r repo.Repositories, stream *repo.Stream, parts ...[]byte) {
	t.Helper()
	next, err := r.Streams().Append(t.Context(), *stream, parts...)
	if err != nil {
		t.Fatal(err)
	}
	if want := stream.Next + int64(len(parts)); next != want {
		t.Fatalf("the next sequence is %d, want %d", next, want)
	}
	stream.Next = next
}

// someParts returns parts that differ.
func someParts(count int) [][]byte {
	parts := make([][]byte, count)
	for i := range parts {
		parts[i] = fmt.Appendf(nil, "%d/%s", i, randomName())
	}
	return parts
}

func wantStreamGone(t *testing.T, err error, stream repo.Stream) {
	t.Helper()
	if got, ok := wantError[*repo.NotFoundError](t, err, repo.ErrGone); ok {
		wantEqual(t, got, repo.NotFoundError{Kind: "stream", Name: stream.Key, ID: stream.ID, Gone: true})
	}
}

func wantStreamFenced(t *testing.T, err error, stream repo.Stream) {
	t.Helper()
	if got, ok := wantError[*repo.FencedError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, repo.FencedError{Key: repo.LeaseKey{Kind: "stream", Name: stream.Key}, Fence: stream.Fence})
	}
}

func wantStreamEnded(t *testing.T, err error, stream repo.Stream, status repo.StreamStatus) {
	t.Helper()
	if got, ok := wantError[*repo.RefusedError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, repo.RefusedError{Kind: "stream", Name: stream.Key, ID: stream.ID, Reason: "is " + string(status)})
	}
}

func wantStreamSequence(t *testing.T, err error, stream repo.Stream, next int64) {
	t.Helper()
	if got, ok := wantError[*repo.SequenceConflictError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, repo.SequenceConflictError{Kind: "stream", Name: stream.Key, ID: stream.ID, Expected: stream.Next, Next: next})
	}
}

func wantNoStream(t *testing.T, err error, key string) {
	t.Helper()
	if got, ok := wantError[*repo.NotFoundError](t, err, repo.ErrNotFound); ok {
		wantEqual(t, got, repo.NotFoundError{Kind: "stream", Name: key})
	}
}

// wantStreamLife checks how long a stream lives from its opening: its TTL, or up to an
// eighth longer.
func wantStreamLife(t *testing.T, stream repo.Stream, ttl time.Duration) {
	t.Helper()
	if life := stream.ExpiresAt.Sub(stream.OpenedAt); life < ttl-time.Second || life > ttl+ttl/8+time.Minute {
		t.Errorf("the stream lives from %v until %v, want %v", stream.OpenedAt, stream.ExpiresAt, ttl)
	}
}

// wantStream compares streams, but for when they expire.
func wantStream(t *testing.T, got, want repo.Stream) {
	t.Helper()
	got.ExpiresAt = want.ExpiresAt
	wantSame(t, "stream", got, want)
}

func testStreamsOpen(t *testing.T, r repo.Repositories) {
	for _, ttl := range []time.Duration{0, repo.MinStreamTTL, repo.MaxStreamTTL} {
		asked := newStream()
		asked.TTL = ttl
		stream := openStream(t, r, asked)
		if stream.ID.IsZero() || stream.Fence < 1 {
			t.Errorf("opened %+v", stream)
		}
		if ttl == 0 {
			ttl = limits.DefaultStreamTTL
		}
		wantStreamLife(t, stream, ttl)
		want := stream
		want.Key, want.Owner, want.Status, want.Reason, want.Next = asked.Key, asked.Owner, repo.StreamOpen, "", 0
		wantStream(t, stream, want)
		if ttl > time.Minute {
			wantSame(t, "stored stream", getStream(t, r, asked.Key), stream)
		}
	}
}

// A writer that opens it again goes on at the end, and the previous one is refused.
func testStreamsOpenAgain(t *testing.T, r repo.Repositories) {
	asked := newStream()
	first := openStream(t, r, asked)
	addParts(t, r, &first, someParts(3)...)
	asked.TTL = repo.MaxStreamTTL
	for range 2 { // also for the same owner
		second := openStream(t, r, asked)
		if second.Fence <= first.Fence {
			t.Errorf("the fence is %d after %d", second.Fence, first.Fence)
		}
		wantStreamLife(t, second, asked.TTL)
		want := first
		want.Fence, want.TTL = second.Fence, asked.TTL
		wantStream(t, second, want)
		wantSame(t, "stored stream", getStream(t, r, asked.Key), second)

		_, err := r.Streams().Append(t.Context(), first, []byte("x"))
		wantStreamFenced(t, err, first)
		wantStreamFenced(t, r.Streams().Finish(t.Context(), first), first)
		wantStreamFenced(t, r.Streams().Fail(t.Context(), first, ""), first)
		later := second
		later.Fence++
		_, err = r.Streams().Append(t.Context(), later, []byte("x"))
		wantStreamFenced(t, err, later)
		addParts(t, r, &second, someParts(1)...)
		first = second
	}
	asked.Owner = randomName()
	if third := openStream(t, r, asked); third.Owner != asked.Owner || third.Next != 5 {
		t.Errorf("opened %+v", third)
	}
}

// One that has ended is followed by another one, and still is what it was.
func testStreamsOpenAfterEnd(t *testing.T, r repo.Repositories) {
	asked := newStream()
	last := openStream(t, r, asked)
	for round := range 3 {
		addParts(t, r, &last, someParts(2)...)
		if round == 0 {
			endStream(t, r, last, repo.StreamFinished)
		} else {
			endStream(t, r, last, repo.StreamFailed)
		}
		next := openStream(t, r, asked)
		if next.ID == last.ID || next.Fence <= last.Fence || next.Next != 0 || next.Status != repo.StreamOpen || next.Reason != "" {
			t.Errorf("opened %+v after %+v", next, last)
		}
		wantSame(t, "stored stream", getStream(t, r, asked.Key), next)
		_, err := r.Streams().Append(t.Context(), last, []byte("x"))
		wantStreamEnded(t, err, last, []repo.StreamStatus{repo.StreamFinished, repo.StreamFailed, repo.StreamFailed}[round])
		last = next
	}
}

// endStream ends a stream, if it fails for the reason "why".
func endStream(t *testing.T, r repo.Repositories, stream repo.Stream, status repo.StreamStatus) {
	t.Helper()
	var err error
	if status == repo.StreamFailed {
		err = r.Streams().Fail(t.Context(), stream, "why")
	} else {
		err = r.Streams().Finish(t.Context(), stream)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func testStreamsAppend(t *testing.T, r repo.Repositories) {
	stream := openStream(t, r, newStream())
	addParts(t, r, &stream, []byte("x"))
	addParts(t, r, &stream, someParts(limits.MaxParts)...)
	addParts(t, r, &stream, bytes.Repeat([]byte{0, 0xff}, 1<<19), []byte{0})
	wantStream(t, getStream(t, r, stream.Key), stream)
	for _, wrong := range []int64{stream.Next + 1, stream.Next + 1000} {
		ahead := stream
		ahead.Next = wrong
		next, err := r.Streams().Append(t.Context(), ahead, []byte("x"))
		wantStreamSequence(t, err, ahead, stream.Next)
		if next != wrong {
			t.Errorf("a failed append returned the next sequence %d, want %d", next, wrong)
		}
	}
	wantStream(t, getStream(t, r, stream.Key), stream)
}

// The same parts are not stored again, and others are refused.
func testStreamsAppendAgain(t *testing.T, r repo.Repositories) {
	stream := openStream(t, r, newStream())
	parts := someParts(5)
	begin := stream
	addParts(t, r, &stream, parts...)
	again := func() {
		t.Helper()
		for first := range parts {
			repeated := begin
			repeated.Next = int64(first)
			addParts(t, r, &repeated, parts[first:]...)
		}
		some := begin
		addParts(t, r, &some, parts[:2]...)
	}
	again()
	for name, others := range map[string][][]byte{
		"another byte":  {[]byte("x")},
		"a longer part": {append(bytes.Clone(parts[0]), 'x')},
		"other order":   {parts[1], parts[0]},
		"other end":     {parts[0], parts[1], parts[2], parts[3], parts[0]},
		"one more":      append(parts[:5:5], []byte("x")),
	} {
		_, err := r.Streams().Append(t.Context(), begin, others...)
		if wantStreamSequence(t, err, begin, 5); t.Failed() {
			t.Fatalf("with %s", name)
		}
	}
	endStream(t, r, stream, repo.StreamFinished)
	again()
	_, err := r.Streams().Append(t.Context(), begin, []byte("x"))
	wantStreamEnded(t, err, begin, repo.StreamFinished)
	want := stream
	want.Status = repo.StreamFinished
	wantStream(t, getStream(t, r, stream.Key), want)
}

// Each end is final, and may be repeated.
func testStreamsEnds(t *testing.T, r repo.Repositories) {
	ctx, streams := t.Context(), r.Streams()
	finished, failed, silent := openStream(t, r, newStream()), openStream(t, r, newStream()), openStream(t, r, newStream())
	addParts(t, r, &failed, someParts(2)...)
	for range 2 {
		if err := errors.Join(streams.Finish(ctx, finished), streams.Fail(ctx, failed, secret), streams.Fail(ctx, silent, "")); err != nil {
			t.Fatal(err)
		}
	}
	wantStreamEnded(t, streams.Fail(ctx, finished, ""), finished, repo.StreamFinished)
	wantStreamEnded(t, streams.Finish(ctx, failed), failed, repo.StreamFailed)
	wantStreamEnded(t, streams.Fail(ctx, failed, "other"), failed, repo.StreamFailed)
	wantStreamEnded(t, streams.Finish(ctx, silent), silent, repo.StreamFailed)
	for _, stream := range []repo.Stream{finished, failed, silent} {
		want := stream
		if want.Status = repo.StreamFailed; stream.ID == finished.ID {
			want.Status = repo.StreamFinished
		}
		if stream.ID == failed.ID {
			want.Reason = secret
		}
		wantStream(t, getStream(t, r, stream.Key), want)
		_, err := streams.Append(ctx, stream, []byte("x"))
		wantStreamEnded(t, err, stream, want.Status)
	}
}

func testStreamsMissing(t *testing.T, r repo.Repositories) {
	_, err := r.Streams().Get(t.Context(), "x"+randomName())
	if missing, ok := errors.AsType[*repo.NotFoundError](err); !ok || !errors.Is(err, repo.ErrNotFound) || missing.Name == "" {
		t.Errorf("got %v", err)
	}
	stream := repo.Stream{Key: randomName(), ID: repo.NewID(), Fence: 1}
	_, err = r.Streams().Append(t.Context(), stream, []byte("x"))
	wantStreamGone(t, err, stream)
	must(t, stream, r.Streams().Finish(t.Context(), stream)) // it has ended
	must(t, stream, r.Streams().Fail(t.Context(), stream, ""))
}

// Keys are told apart byte by byte.
func testStreamsKeys(t *testing.T, r repo.Repositories) {
	name := randomName()
	ids := map[repo.ID]bool{}
	keys := []string{
		name, name + " ", strings.ToLower(name) + "A", strings.ToLower(name) + "a", name + "é", name + "e\u0301", name + "\n",
		name + strings.Repeat("k", repo.MaxKeyBytes-len(name)),
	}
	for _, key := range keys {
		stream := openStream(t, r, repo.NewStream{Key: key, Owner: strings.Repeat("o", limits.MaxUserIDBytes)})
		ids[stream.ID] = true
		wantSame(t, "stored stream", getStream(t, r, key), stream)
	}
	if len(ids) != len(keys) {
		t.Errorf("%d streams for %d keys", len(ids), len(keys))
	}
}

func testStreamsInvalid(t *testing.T, r repo.Repositories) {
	ctx, streams := t.Context(), r.Streams()
	for field, spoil := range map[string]func(*repo.NewStream){
		"key":   func(s *repo.NewStream) { s.Key = "" },
		"owner": func(s *repo.NewStream) { s.Owner = "" },
		"ttl":   func(s *repo.NewStream) { s.TTL = repo.MinStreamTTL - time.Microsecond }, // short: refused
	} {
		asked := newStream()
		spoil(&asked)
		wantInvalid(t, second(streams.Open(ctx, asked)), field)
	}
	for _, ttl := range []time.Duration{-1, 1, repo.MaxStreamTTL + time.Microsecond} {
		asked := newStream()
		asked.TTL = ttl
		wantInvalid(t, second(streams.Open(ctx, asked)), "ttl")
	}
	for _, bad := range []string{strings.Repeat("x", 1025), "\xff", "a\x00b"} {
		asked := newStream()
		asked.Key = bad
		wantInvalid(t, second(streams.Open(ctx, asked)), "key")
		wantInvalid(t, second(streams.Get(ctx, bad)), "key")
		asked = newStream()
		asked.Owner = bad
		wantInvalid(t, second(streams.Open(ctx, asked)), "owner")
	}
	wantInvalid(t, second(streams.Get(ctx, "")), "key")
	stream := openStream(t, r, newStream())
	for field, spoil := range map[string]func(*repo.Stream){
		"stream.id":    func(s *repo.Stream) { s.ID = repo.ID{} },
		"stream.fence": func(s *repo.Stream) { s.Fence = 0 },
		"stream.next":  func(s *repo.Stream) { s.Next = -1 },
	} {
		spoiled := stream
		spoil(&spoiled)
		wantInvalid(t, second(streams.Append(ctx, spoiled, []byte("x"))), field)
		wantInvalid(t, streams.Finish(ctx, spoiled), field)
		wantInvalid(t, streams.Fail(ctx, spoiled, ""), field)
	}
	large := make([]byte, repo.MaxPartBytes+1)
	for field, parts := range map[string][][]byte{
		"parts[1]": {[]byte("x"), {}},
		"parts[2]": {[]byte("x"), []byte("x"), large},
	} {
		wantInvalid(t, second(streams.Append(ctx, stream, parts...)), field)
	}
	wantInvalid(t, second(streams.Append(ctx, stream, someParts(limits.MaxParts+1)...)), "parts")
	whole := large[:repo.MaxPartBytes]
	wantInvalid(t, second(streams.Append(ctx, stream, whole, []byte("x"))), "parts")
	for _, bad := range []string{strings.Repeat("x", limits.MaxTextBytes+1), "\xff", "a\x00b"} {
		wantInvalid(t, streams.Fail(ctx, stream, bad), "reason")
	}
	for _, limit := range []int{-1, limits.MaxStreamRemoval + 1} {
		wantInvalid(t, third(streams.RemoveExpired(ctx, limit)), "limit")
	}
	wantStream(t, getStream(t, r, stream.Key), stream)
}

// What has not expired is not removed.
func testStreamsRemoveNothing(t *testing.T, r repo.Repositories) {
	stream := openStream(t, r, newStream())
	addParts(t, r, &stream, someParts(3)...)
	endStream(t, r, stream, repo.StreamFinished)
	for _, limit := range []int{0, 1, limits.MaxStreamRemoval} {
		if _, _, err := r.Streams().RemoveExpired(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
	}
	want := stream
	want.Status = repo.StreamFinished
	wantStream(t, getStream(t, r, stream.Key), want)
}
