package follow

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

// sent is what a Notifier under test has sent.
type sent struct {
	mu       sync.Mutex
	payloads [][]string
	at       []time.Time
	heard    bool
	err      error
	hang     bool
}

func (s *sent) send(ctx context.Context, payloads []string) (bool, error) {
	s.mu.Lock()
	s.payloads, s.at = append(s.payloads, payloads), append(s.at, time.Now())
	heard, err, hang := s.heard, s.err, s.hang
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return heard, err
}

// news returns what was sent, in the order of keys within a message.
func (s *sent) news() (all []News[Subject]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, payloads := range s.payloads {
		var message []News[Subject]
		for _, payload := range payloads {
			message = append(message, Decode(payload)...)
		}
		slices.SortFunc(message, func(a, b News[Subject]) int { return slices.Compare(a.Key.Key[:], b.Key.Key[:]) })
		all = append(all, message...)
	}
	return all
}

func about(key byte, next int64) News[Subject] {
	return News[Subject]{Subject{'m', [16]byte{key}}, next}
}

func inNotifier(t *testing.T, test func(t *testing.T, n *Notifier, s *sent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &sent{heard: true}
		n := NewNotifier(s.send)
		test(t, n, s)
		n.Close()
		n.Add(about(1, 1)) // ignored
	})
}

// The first news are sent at once, further ones together after a pause.
func TestNotifier(t *testing.T) {
	t.Parallel()
	inNotifier(t, func(t *testing.T, n *Notifier, s *sent) {
		start := time.Now()
		n.Add(about(1, 5))
		synctest.Wait()
		n.Add(about(1, 7), about(2, 1))
		n.Add(about(1, 6), about(3, 9))
		n.Add(about(3, Look), about(4, Look))
		n.Add(about(3, 10), about(4, 2))
		time.Sleep(time.Second)
		want := []News[Subject]{about(1, 5), about(1, 7), about(2, 1), about(3, Look), about(4, Look)}
		if got := s.news(); !slices.Equal(got, want) || len(s.payloads) != 2 {
			t.Errorf("sent %v, want %v", got, want)
		}
		if first, second := s.at[0].Sub(start), s.at[1].Sub(start); first != 0 || second != heardPause {
			t.Errorf("sent after %v and %v", first, second)
		}
		n.Add(about(1, 8))
		synctest.Wait()
		if got := len(s.payloads); got != 3 {
			t.Errorf("after a pause %d messages, want the third at once", got)
		}
	})
}

// Fewer are sent if there is news of many logs, if there is no listener, or if it fails.
func TestNotifierPauses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pause time.Duration
		logs  int // with news, one every 100 µs
		sent  *sent
	}{
		{heardPause, busyNews - 1, &sent{heard: true}},
		{busyPause, busyNews, &sent{heard: true}},
		{unheardPause, busyNews, &sent{}},
		{failedPause, 1, &sent{err: errors.New("failed")}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := test.sent
			n := NewNotifier(s.send)
			for i := range 10_000 {
				n.Add(about(byte(i%test.logs), int64(i)))
				time.Sleep(100 * time.Microsecond)
			}
			time.Sleep(time.Second)
			n.Close()
			if got, want := len(s.payloads), int(time.Second/test.pause); got < want || got > want+3 {
				t.Errorf("%d messages in a second with a pause of %v", got, test.pause)
			}
		})
	}
}

// What is pending is bounded, and sent as few payloads that the server accepts.
func TestNotifierBounds(t *testing.T) {
	t.Parallel()
	inNotifier(t, func(t *testing.T, n *Notifier, s *sent) {
		s.hang = true
		n.Add(about(1, 1))
		synctest.Wait()
		s.mu.Lock()
		s.hang = false
		s.mu.Unlock()
		for i := range maxPending + 100 {
			key := [16]byte{byte(i), byte(i >> 8), byte(i >> 16), 1}
			n.Add(News[Subject]{Subject{'m', key}, int64(i)})
		}
		n.Close()
		total := 0
		for _, payload := range s.payloads[1] {
			if len(payload) > maxPayload || len(payload) == 0 {
				t.Errorf("a payload of %d bytes", len(payload))
			}
			total += len(Decode(payload))
		}
		if total != maxPending {
			t.Errorf("sent %d, want %d", total, maxPending)
		}
		if got := len(s.payloads[1]); got > 300 {
			t.Errorf("%d payloads", got)
		}
	})
}

// Close sends what is pending, without the pause, and does not wait for long.
func TestNotifierClose(t *testing.T) {
	t.Parallel()
	inNotifier(t, func(t *testing.T, n *Notifier, s *sent) {
		n.Add(about(1, 1))
		synctest.Wait()
		n.Add(about(2, 2))
		start := time.Now()
		n.Close()
		if took := time.Since(start); took != 0 || len(s.news()) != 2 {
			t.Errorf("closed after %v, with %v sent", took, s.news())
		}
	})
	inNotifier(t, func(t *testing.T, n *Notifier, s *sent) {
		s.hang = true
		n.Add(about(1, 1))
		synctest.Wait()
		start := time.Now()
		n.Close()
		if took := time.Since(start); took != lastSend {
			t.Errorf("closed after %v, want %v", took, lastSend)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(map[Subject]int64{{'m', [16]byte{1, 2}}: 7, {'s', [16]byte{255}}: Look})[0])
	f.Add("m,,x")
	f.Fuzz(func(t *testing.T, payload string) {
		all := map[Subject]int64{}
		for _, n := range Decode(payload) {
			if n.Next < Look {
				t.Errorf("the next sequence %d", n.Next)
			}
			all[n.Key] = n.Next
		}
		again := map[Subject]int64{}
		for _, payload := range encode(all) {
			for _, n := range Decode(payload) {
				again[n.Key] = n.Next
			}
		}
		if len(again) != len(all) {
			t.Errorf("%v became %v", all, again)
		}
		for key, next := range all {
			if again[key] != next {
				t.Errorf("%v became %v", all, again)
			}
		}
	})
}
