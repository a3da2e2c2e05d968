package repotest

import (
	"context"
	"errors"
	"iter"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func streamTests() []test {
	return []test{
		on("FiveThousand", testStreamFiveThousand),
		on("LongMessages", testStreamLongMessages),
		on("Break", testStreamBreak),
		on("Again", testStreamAgain),
		on("WhileAppending", testStreamWhileAppending),
		on("NestedOperations", testStreamNestedOperations),
		on("Negative", testStreamNegative),
		on("Deleted", testStreamDeleted),
	}
}

// collect reads a stream to its end or its error.
func collect(stream iter.Seq2[repo.Message, error]) ([]repo.Message, error) {
	var messages []repo.Message
	for message, err := range stream {
		if err != nil {
			return messages, err
		}
		messages = append(messages, message)
	}
	return messages, nil
}

func testStreamFiveThousand(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	all := appendTo(t, s, id, users(5000)...)
	for _, from := range []int64{0, 1, 2500, 4999, 5000, 5001, math.MaxInt64} {
		got, err := collect(s.Messages(t.Context(), id, from))
		wantMessages(t, must(t, got, err), all[min(from, 5000):])
	}
}

// Messages have very different lengths, so that a store may read them in chunks of
// very different sizes.
func testStreamLongMessages(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	var given []repo.NewMessage
	for i := range 250 {
		length := 1
		if i%60 == 59 {
			length = 1 << 20
		}
		given = append(given, user(strings.Repeat("x", length)))
	}
	all := appendTo(t, s, id, given...)
	got, err := collect(s.Messages(t.Context(), id, 0))
	wantMessages(t, must(t, got, err), all)
}

func testStreamBreak(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(300)...)
	for _, stop := range []int64{0, 1, 99, 100, 101, 299} {
		for message, err := range s.Messages(t.Context(), id, 0) {
			if err != nil {
				t.Fatalf("Stream: %v", err)
			}
			if message.Sequence == stop {
				break
			}
		}
	}
	// The stream has left nothing open: the session can still be used.
	appendTo(t, s, id, user("x"))
	wantCount(t, s, id, 301)
}

// Ranging over a stream a second time reads again.
func testStreamAgain(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	all := appendTo(t, s, id, users(3)...)
	stream := s.Messages(t.Context(), id, 1)
	for range 2 {
		got, err := collect(stream)
		wantMessages(t, must(t, got, err), all[1:])
		all = append(all, appendTo(t, s, id, user("x"))...)
	}
}

// A stream ends at the last message that exists when it gets there. It contains all
// messages from before it began, and may or may not contain those appended while it
// runs.
func testStreamWhileAppending(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(1000)...)
	var got []repo.Message
	for message, err := range s.Messages(t.Context(), id, 0) {
		if err != nil {
			t.Fatalf("Stream: %v", err)
		}
		if message.Sequence == 10 {
			appendTo(t, s, id, users(50)...)
		}
		got = append(got, message)
	}
	wantDense(t, got, 0)
	if len(got) != 1000 && len(got) != 1050 {
		t.Errorf("the stream had %d messages, want 1000, or 1050 with those appended meanwhile", len(got))
	}
}

// The loop's body may use the store, including further streams.
func testStreamNestedOperations(t *testing.T, s repo.Sessions) {
	id, copied := create(t, s), create(t, s)
	all := appendTo(t, s, id, users(5)...)
	for message, err := range s.Messages(t.Context(), id, 0) {
		if err != nil {
			t.Fatalf("Stream: %v", err)
		}
		got, err := s.Message(t.Context(), id, message.ID)
		wantMessage(t, must(t, got, err), message)
		inner, err := collect(s.Messages(t.Context(), id, message.Sequence))
		wantMessages(t, must(t, inner, err), all[message.Sequence:])
		appendTo(t, s, copied, user(message.Content))
	}
	wantCount(t, s, copied, 5)
}

// wantOneError checks that a stream yields one error, with a zero message, and
// then ends.
func wantOneError(t *testing.T, stream iter.Seq2[repo.Message, error]) error {
	t.Helper()
	var failure error
	count := 0
	for message, err := range stream {
		count++
		failure = err
		if err == nil || !reflect.DeepEqual(message, repo.Message{}) {
			t.Errorf("yielded %s, %v, want a zero message and an error", message.ID, err)
		}
	}
	if count != 1 {
		t.Errorf("the stream yielded %d times, want once", count)
	}
	return failure
}

func testStreamNegative(t *testing.T, s repo.Sessions) {
	wantInvalid(t, wantOneError(t, s.Messages(t.Context(), create(t, s), -1)), "from")
	missing := repo.NewID()
	wantNotFound(t, wantOneError(t, s.Messages(t.Context(), missing, 0)), "session", missing)
}

// A stream ends with an error if its session is deleted before the last messages were read.
// It may have read them all.
func testStreamDeleted(t *testing.T, s repo.Sessions) {
	for _, count := range []int{100, 256, 600} {
		id := create(t, s)
		all := appendTo(t, s, id, users(count)...)
		got := 0
		var failure error
		for message, err := range s.Messages(t.Context(), id, 0) {
			if failure = err; err != nil {
				break
			}
			wantMessage(t, message, all[got])
			if got++; got == 1 {
				remove(t, s, id)
			}
			if got == count && count == 600 {
				t.Fatalf("a chunk has all %d messages", count)
			}
		}
		if failure != nil {
			wantNotFound(t, failure, "session", id)
		} else if got < count {
			t.Errorf("%d of %d messages, and no error", got, count)
		}
	}
}

// If the context ends, the stream ends with its error, at the latest after the
// messages that were already read. This needs a store: in a transaction, the end of
// the context may close the database's connection.
func testStreamContext(t *testing.T, store repo.Store) {
	s := store.Sessions()
	id := create(t, s)
	appendTo(t, s, id, users(5000)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count := 0
	var failure error
	for message, err := range s.Messages(ctx, id, 0) {
		if failure != nil {
			t.Error("the stream went on after its error")
		}
		if err != nil {
			failure = err
			if !reflect.DeepEqual(message, repo.Message{}) {
				t.Errorf("the error came with the message %d", message.Sequence)
			}
			continue
		}
		if count++; count == 10 {
			cancel()
		}
	}
	if !errors.Is(failure, context.Canceled) {
		t.Errorf("the stream ended with %v, want the context's error", failure)
	}
	if count >= 5000 {
		t.Errorf("the stream yielded all %d messages after its context ended", count)
	}
}
