package follow

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

func TestFollow(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.create("a")
		w.add("a", 250)
		whole, rest, beyond := w.follow("a", 0), w.follow("a", 240), w.follow("a", 252)
		time.Sleep(20 * time.Millisecond)
		whole.wants(250, nil)
		rest.wants(10, nil)
		w.h.Tell(w.add("a", 2))
		time.Sleep(5 * time.Millisecond)
		beyond.wants(0, nil)
		w.h.Tell(w.add("a", 1))
		time.Sleep(5 * time.Millisecond)
		whole.wants(253, nil)
		rest.wants(13, nil)
		beyond.wants(1, nil)
		whole.stop()
		whole.wants(253, context.Canceled)
		close(rest.told)
		rest.wants(13, ErrClosed)
		w.h.Close()
		beyond.wants(1, ErrClosed)
		late := w.follow("a", 0)
		late.wants(0, ErrClosed)
	})
}

func TestMissing(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		r := w.follow("a", 0)
		time.Sleep(time.Millisecond)
		r.wants(0, ErrMissing)
	})
}

// What no hint tells of is found by the poll, within its interval.
func TestPoll(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		var readers []*reader
		keys := []string{"a", "b", "c"}
		for _, key := range keys {
			w.create(key)
			readers = append(readers, w.follow(key, 0))
		}
		time.Sleep(10 * time.Millisecond)
		if reads, _, _ := w.counts(); reads > len(keys) {
			t.Errorf("%d reads of %d logs", reads, len(keys))
		}
		for range 5 {
			for _, key := range keys {
				w.add(key, 3)
			}
			time.Sleep(interval + 2*time.Millisecond)
		}
		for _, r := range readers {
			r.wants(15, nil)
		}
		if reads, given, polls := w.counts(); reads > 10 || given != 45 || polls != 5 {
			t.Errorf("%d reads of %d items and %d polls, want two reads for each of 5 polls", reads, given, polls)
		}
		// Idle: the poll alone.
		time.Sleep(10 * interval)
		if reads, _, polls := w.counts(); reads > 0 || polls != 10 {
			t.Errorf("idle: %d reads, %d polls", reads, polls)
		}
		for _, r := range readers {
			r.stop()
		}
		time.Sleep(10 * interval)
		if _, _, polls := w.counts(); polls > 0 {
			t.Errorf("%d polls without followers", polls)
		}
		// Only logs that are waited for are compared.
		release := make(chan struct{})
		busy := w.followWith("a", 0, func() { <-release })
		w.follow("b", 0)
		time.Sleep(2 * interval)
		w.mu.Lock()
		if len(w.polled) != 1 || w.polled[0].Key != "b" {
			t.Errorf("polled: %v, want b alone", w.polled)
		}
		w.mu.Unlock()
		close(release)
		busy.wants(15, nil)
	})
}

// Poke makes a poll due.
func TestPoke(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.create("a")
		r := w.follow("a", 0)
		time.Sleep(2 * time.Millisecond)
		w.add("a", 1)
		w.h.Poke()
		w.h.Poke()
		time.Sleep(2 * time.Millisecond)
		r.wants(1, nil)
	})
}

// Many followers of a log: each item is read once, although they are not equally quick.
func TestShared(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.create("a")
		var readers []*reader
		for range 400 {
			delay := time.Duration(rand.N(2000)) * time.Microsecond
			readers = append(readers, w.followWith("a", 0, func() { time.Sleep(delay) }))
		}
		time.Sleep(10 * time.Millisecond)
		w.counts()
		const items = 300
		for range items {
			w.h.Tell(w.add("a", 1))
			time.Sleep(2100 * time.Microsecond)
		}
		time.Sleep(100 * time.Millisecond)
		for _, r := range readers {
			r.wants(items, nil)
		}
		if reads, given, _ := w.counts(); given != items {
			t.Errorf("%d items were read for %d, in %d reads", given, items, reads)
		}
		w.h.mu.Lock()
		if tail := &w.h.topics["a"].tail; len(tail.items) > tailItems || tail.bytes > tailBytes || tail.end() != items {
			t.Errorf("%d items of %d bytes are kept, up to %d", len(tail.items), tail.bytes, tail.end())
		}
		w.h.mu.Unlock()
		time.Sleep(4 * interval)
		w.h.mu.Lock()
		defer w.h.mu.Unlock()
		if kept := len(w.h.topics["a"].tail.items); kept > 0 {
			t.Errorf("%d items are kept of an idle log", kept)
		}
	})
}

// Once a follower has got an item that is larger than a tail, nothing before it is kept: neither what was read for two
// when there were two of them, nor what a read brings that had begun before.
func TestEmptied(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		inWorld(t, func(w *world) {
			w.create("a")
			w.h.Tell(w.add("a", 5))
			first, second := w.follow("a", 0), w.follow("a", 0)
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			if w.large = 5; late {
				w.readTakes = 100 * time.Millisecond
				third := w.follow("a", 0)
				time.AfterFunc(50*time.Millisecond, third.stop)
			} else {
				second.stop()
			}
			synctest.Wait()
			w.readTakes = time.Millisecond
			w.h.Tell(w.add("a", 1))
			time.Sleep(10 * time.Millisecond)
			first.wants(6, nil)
			time.Sleep(200 * time.Millisecond)
			w.counts()
			synctest.Wait()
			w.share = 1 // who begins now gets the first item alone
			w.follow("a", 0)
			time.Sleep(100 * time.Millisecond)
			if _, given, _ := w.counts(); given != 6 {
				t.Errorf("late: %v: %d items were read anew", late, given)
			}
		})
	}
}

// What is due together is one read, and no more reads are under way than may be.
func TestTogether(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const logs = 40
		var readers []*reader
		key := func(i int) string { return string(rune('A' + i)) }
		for i := range logs {
			w.create(key(i))
			readers = append(readers, w.follow(key(i), 0))
		}
		time.Sleep(50 * time.Millisecond)
		w.counts()
		var news []News[string]
		for i := range logs {
			news = append(news, w.add(key(i), 1))
		}
		w.h.Tell(news...)
		time.Sleep(5 * time.Millisecond)
		for _, r := range readers {
			r.wants(1, nil)
		}
		if reads, given, _ := w.counts(); reads > 2 || given != logs {
			t.Errorf("%d reads of %d items for %d logs", reads, given, logs)
		}
		for range 20 {
			for i := range logs {
				w.h.Tell(w.add(key(i), 1))
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond)
		for _, r := range readers {
			r.wants(21, nil)
		}
		if reads, _, _ := w.counts(); w.most > 2 || reads > 60 {
			t.Errorf("%d reads, up to %d at once", reads, w.most)
		}
	})
}

// A slow follower delays no other, and nothing is queued for it.
func TestSlow(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.size = 1 // so that the number of items is what bounds the tail
		w.create("a")
		release := make(chan struct{})
		slow := w.followWith("a", 0, func() { <-release })
		quick := w.follow("a", 0)
		for range 1000 {
			w.h.Tell(w.add("a", 10))
			time.Sleep(2 * time.Millisecond)
		}
		quick.wants(10_000, nil)
		slow.wants(1, nil)
		w.h.mu.Lock()
		if topic := w.h.topics["a"]; len(topic.requests) > 1 || len(topic.tail.items) > tailItems {
			t.Errorf("%d requests, %d items are kept", len(topic.requests), len(topic.tail.items))
		}
		w.h.mu.Unlock()
		close(release)
		time.Sleep(200 * time.Millisecond)
		slow.wants(10_000, nil)
	})
}

// Hints may be lost, wrong, repeated, or early. A follower gets everything all the same,
// and a wrong hint costs a few reads.
func TestHints(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.create("a")
		w.add("a", 5)
		r := w.follow("a", 0)
		time.Sleep(5 * time.Millisecond)
		w.counts()
		w.h.Tell(News[string]{"a", 1_000_000}, News[string]{"a", 3}, News[string]{"a", 5}, News[string]{"b", 7})
		time.Sleep(10 * interval)
		if reads, given, _ := w.counts(); reads > 2 || given > 0 {
			t.Errorf("a wrong hint cost %d reads of %d items", reads, given)
		}
		// It does not hide what comes.
		w.h.Tell(w.add("a", 1))
		time.Sleep(2 * time.Millisecond)
		r.wants(6, nil)
		w.h.Tell(News[string]{"a", 1_000_000})
		w.add("a", 1)
		time.Sleep(interval + 2*time.Millisecond)
		r.wants(7, nil)
	})
}

// A hint that comes during a read that does not see it yet is not lost.
func TestHintDuringRead(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.readTakes = 10 * time.Millisecond
		w.create("a")
		r := w.follow("a", 0) // whose first read is under way
		w.h.Tell(w.add("a", 1))
		time.Sleep(25 * time.Millisecond)
		r.wants(1, nil)
		w.h.Tell(w.add("a", 1))
		synctest.Wait()
		w.h.Tell(w.add("a", 1))
		time.Sleep(25 * time.Millisecond)
		r.wants(3, nil)
	})
}

// Nor does it cost followers a read that are a little behind.
func TestHintDuringReadOfOthers(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.readTakes = 10 * time.Millisecond
		w.create("a")
		release := make(chan struct{})
		quick, slow := w.follow("a", 0), w.followWith("a", 0, func() { <-release })
		time.Sleep(50 * time.Millisecond)
		w.counts()
		w.h.Tell(w.add("a", 1))
		synctest.Wait()
		w.h.Tell(w.add("a", 1))
		time.Sleep(50 * time.Millisecond)
		quick.wants(2, nil)
		close(release)
		time.Sleep(5 * time.Millisecond)
		slow.wants(2, nil)
		if _, given, _ := w.counts(); given != 2 {
			t.Errorf("%d items were read for 2", given)
		}
	})
}

// While the database is away, followers wait, and ask it now and then. A new one gets the
// error.
func TestOutage(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.create("a")
		var readers []*reader
		for range 20 {
			readers = append(readers, w.follow("a", 0))
		}
		time.Sleep(5 * time.Millisecond)
		w.counts()
		w.fail(errPasses)
		w.h.Tell(w.add("a", 1))
		time.Sleep(time.Minute)
		if reads, _, _ := w.counts(); reads < 30 || reads > 200 {
			t.Errorf("%d reads in a minute without a database", reads)
		}
		late := w.follow("a", 0)
		time.Sleep(longRest + time.Millisecond)
		late.wants(0, errPasses)
		w.fail(nil)
		time.Sleep(longRest + 5*time.Millisecond)
		for _, r := range readers {
			r.wants(1, nil)
		}
	})
}

// An error that will not pass ends them, also if it is the poll that meets it.
func TestError(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.create("a")
		r := w.follow("a", 0)
		time.Sleep(5 * time.Millisecond)
		w.fail(errStays)
		time.Sleep(interval + 5*time.Millisecond)
		r.wants(0, errStays)
	})
}

// A log that is gone ends its followers: at once if they are told, at the next poll
// otherwise, wherever they are in it.
func TestGone(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]bool{"told": true, "polled": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.create("a")
				w.add("a", 5)
				readers := []*reader{w.follow("a", 0), w.follow("a", 2), w.follow("a", 7)}
				time.Sleep(10 * time.Millisecond)
				w.remove("a")
				if told {
					w.h.Tell(News[string]{"a", Look})
					time.Sleep(5 * time.Millisecond)
				} else {
					time.Sleep(interval + 5*time.Millisecond)
				}
				for i, count := range []int{5, 3, 0} {
					readers[i].wants(count, ErrGone)
				}
			})
		})
	}
}

// It is also found out by a follower that does not wait when it is told.
func TestGoneMeanwhile(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.create("a")
		w.add("a", 5)
		release := make(chan struct{})
		slow := w.followWith("a", 0, func() { <-release })
		time.Sleep(5 * time.Millisecond)
		w.remove("a")
		w.h.Tell(News[string]{"a", Look})
		close(release)
		time.Sleep(5 * time.Millisecond)
		slow.wants(5, ErrGone)
	})
}

// An answer that is older than the one before, as a replica's may be, ends no follower.
func TestBehind(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.create("a")
		w.add("a", 5)
		readers := []*reader{w.follow("a", 0), w.follow("a", 3), w.follow("a", 5)}
		time.Sleep(5 * time.Millisecond)
		lag := func(behind int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.behind = behind
		}
		w.counts()
		lag(3)
		w.h.Tell(w.add("a", 1))
		time.Sleep(5 * interval)
		if reads, _, _ := w.counts(); reads > 4 {
			t.Errorf("%d reads of what is old", reads)
		}
		lag(0)
		time.Sleep(interval + 5*time.Millisecond)
		for i, count := range []int{6, 3, 1} {
			readers[i].wants(count, nil)
		}
	})
}

// A follower does not share a read that began before it: its caller may have seen more.
func TestBegunBefore(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.readTakes = 10 * time.Millisecond
		first := w.follow("a", 0)
		w.create("a")
		w.add("a", 3)
		second := w.follow("a", 0)
		time.Sleep(50 * time.Millisecond)
		first.wants(0, ErrMissing)
		second.wants(3, nil)
	})
}

// One that is told to stop does so, although its next items are kept.
func TestStop(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.create("a")
		release := make(chan struct{})
		quick, slow := w.follow("a", 0), w.followWith("a", 0, func() { <-release })
		for range 10 {
			w.h.Tell(w.add("a", 1))
			time.Sleep(2 * time.Millisecond)
		}
		quick.wants(10, nil)
		close(slow.told)
		close(release)
		slow.wants(1, ErrClosed)
	})
}

// Items that come before the end of a log are followed by its end.
func TestEnd(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.create("a")
		w.add("a", 150)
		r := []*reader{w.follow("a", 0), w.follow("a", 100), w.follow("a", 400)}
		time.Sleep(5 * time.Millisecond)
		w.mu.Lock()
		w.ends["a"] = errStays
		w.mu.Unlock()
		w.h.Tell(w.add("a", 150), News[string]{"a", Look})
		time.Sleep(20 * time.Millisecond)
		for i, count := range []int{300, 200, 0} {
			r[i].wants(count, errStays)
		}
		late := w.follow("a", 0)
		time.Sleep(20 * time.Millisecond)
		late.wants(300, errStays)
	})
}

// An answer that is full leaves out positions, which are read next.
func TestCut(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.room = 10
		var readers []*reader
		for _, key := range []string{"a", "b", "c", "d"} {
			w.create(key)
			w.add(key, 95)
			readers = append(readers, w.follow(key, 0))
		}
		time.Sleep(50 * time.Millisecond)
		for _, r := range readers {
			r.wants(95, nil)
		}
	})
}

// Followers that catch up delay neither an up-to-date one nor one another: each gets its turn.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const logs, items = 200, 5000
		w.create("live")
		live := w.follow("live", 0)
		w.room, w.readTakes = w.share, 2*time.Millisecond
		var readers []*reader
		for i := range logs {
			key := string(rune('A' + i))
			w.create(key)
			w.add(key, items)
			readers = append(readers, w.follow(key, 0))
		}
		got := func(r *reader) int {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.got)
		}
		time.Sleep(100 * w.readTakes) // all have had a first turn
		begun := make([]int, logs)
		for i, r := range readers {
			begun[i] = got(r)
		}
		const pings = 50
		for i := range pings {
			w.h.Tell(w.add("live", 1))
			time.Sleep(w.readTakes)
			live.wants(i+1, nil)
			time.Sleep(9 * w.readTakes / 2) // in the midst of the reads
			least, most := items, 0
			for i, r := range readers {
				least, most = min(least, got(r)-begun[i]), max(most, got(r)-begun[i])
			}
			if most-least > 2*w.share {
				t.Errorf("one has read %d items, and another %d", most, least)
				break
			}
		}
		if last := got(readers[logs-1]); last <= begun[logs-1] || last == items {
			t.Errorf("none catches up: of the last one %d items have come, and %d before", last, begun[logs-1])
		}
		time.Sleep(time.Minute)
		for _, r := range readers {
			r.wants(items, nil)
		}
	})
}

// Many new followers, as after a deployment, do not delay an up-to-date one, and are read together.
func TestNewOnes(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const logs = 500
		w.create("live")
		live := w.follow("live", 0)
		synctest.Wait()
		time.Sleep(2 * w.readTakes)
		var readers []*reader
		for i := range logs {
			key := string(rune('A' + i))
			w.create(key)
			w.add(key, 1)
			readers = append(readers, w.follow(key, 0))
		}
		synctest.Wait()
		before, _, _ := w.counts()
		w.h.Tell(w.add("live", 1))
		time.Sleep(w.readTakes)
		synctest.Wait()
		live.wants(1, nil)
		time.Sleep(time.Second / 2)
		for _, r := range readers {
			r.wants(1, nil)
		}
		if reads, _, _ := w.counts(); reads-before > 2*logs/w.h.config.Positions {
			t.Errorf("%d new followers took %d reads", logs, reads-before)
		}
	})
}

// With one reader, followers that catch up and up-to-date ones take turns.
func TestCatchUpOneReader(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.h.config.Readers = 1
		w.create("live")
		live := w.follow("live", 0)
		w.create("a")
		w.add("a", 5000)
		r := w.follow("a", 0)
		for range 200 { // at each moment there is something to read that is live
			w.h.Tell(w.add("live", 1))
			time.Sleep(w.readTakes)
		}
		time.Sleep(5 * w.readTakes)
		live.wants(200, nil)
		r.wants(5000, nil)
	})
}

// One that cannot be read fails alone, and has little of the readers' time. When it can be read
// again it goes on.
func TestBad(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		var readers []*reader
		for i := range 40 {
			key := string(rune('A' + i))
			w.create(key)
			readers = append(readers, w.follow(key, 0))
		}
		time.Sleep(10 * time.Millisecond)
		w.mu.Lock()
		w.readTakes, w.bad = 10*time.Millisecond, "C"
		w.mu.Unlock()
		var news []News[string]
		for i := range readers {
			news = append(news, w.add(string(rune('A'+i)), 1))
		}
		w.h.Tell(news...)
		var late []*reader // some of whom are read together
		for _, key := range []string{"A", "B", "C", "D", "E"} {
			late = append(late, w.follow(key, 0))
		}
		time.Sleep(time.Second)
		for i, r := range readers {
			if i != 2 {
				r.wants(1, nil)
			}
		}
		for i, r := range late {
			if i != 2 {
				r.wants(1, nil)
			}
		}
		late[2].wants(0, errAlone)
		w.counts()
		time.Sleep(10 * time.Second)
		if reads, _, _ := w.counts(); reads == 0 || reads > 250 {
			t.Errorf("%d reads in 10 s of what fails, each of 10 ms", reads)
		}
		readers[2].wants(0, nil)
		w.mu.Lock()
		w.bad = ""
		w.mu.Unlock()
		time.Sleep(time.Second)
		readers[2].wants(1, nil)
	})
}

// A follower that leaves while it waits leaves nothing behind.
func TestLeave(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.create("a")
		w.readTakes = 100 * time.Millisecond
		var readers []*reader
		for i := range 200 { // reads under way, queued and parked
			readers = append(readers, w.follow("a", i))
			if i%3 == 0 {
				readers = append(readers, w.follow("a", i))
			}
		}
		for _, r := range readers {
			r.stop()
			r.wants(0, context.Canceled)
		}
		time.Sleep(2 * interval)
		w.h.mu.Lock()
		if len(w.h.topics) != 0 || len(w.h.live)+len(w.h.behind) != 0 || w.h.polling {
			t.Errorf("%d topics, %d requests are left; polling: %t", len(w.h.topics), len(w.h.live)+len(w.h.behind), w.h.polling)
		}
		w.h.mu.Unlock()
		r := w.follow("a", 0)
		time.Sleep(300 * time.Millisecond)
		w.h.Tell(w.add("a", 3))
		time.Sleep(300 * time.Millisecond)
		r.wants(3, nil)
	})
}

// Nor does one that leaves before its turn, among others that stay, keep later ones
// from what it waited for.
func TestLeaveQueue(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.create("a")
		w.readTakes = 100 * time.Millisecond
		w.follow("a", 0)
		w.follow("a", 2).stop() // which is queued behind the read that is under way
		synctest.Wait()
		r := w.follow("a", 2)
		w.h.Tell(w.add("a", 3))
		time.Sleep(500 * time.Millisecond)
		r.wants(1, nil)
	})
}

// naive follows as one would with a queue for each reader: it reads what there is, and
// then takes what it is told for the items. It misses what comes in between.
func (w *world) naive(from int, told <-chan News[string], until int) (seen []int) {
	w.mu.Lock()
	for sequence := range len(w.logs["a"]) - from {
		seen = append(seen, from+sequence)
	}
	w.mu.Unlock()
	for len(seen) == 0 || seen[len(seen)-1] < until-1 {
		select {
		case n := <-told:
			seen = append(seen, int(n.Next)-1)
		case <-time.After(time.Minute):
			return seen
		}
	}
	return seen
}

// Hints are lost, repeated and out of order, as notifications may be, also while followers
// come and go.
func TestRandomHints(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const items, followers = 2000, 10
		w.create("a")
		told := make(chan News[string], 10*items)
		var writing, naive sync.WaitGroup
		writing.Go(func() {
			var late []News[string]
			for range items {
				n := w.add("a", 1)
				switch rand.N(10) {
				case 0: // lost
				case 1:
					late = append(late, n)
				case 2:
					n.Next += rand.N(int64(50))
					fallthrough
				default:
					for _, n := range append(late, n) {
						w.h.Tell(n)
						told <- n
					}
					late = nil
				}
				time.Sleep(time.Duration(rand.N(2000)) * time.Microsecond)
			}
		})
		var seen []int
		naive.Go(func() { seen = w.naive(0, told, items) })
		var readers []*reader
		for i := range followers {
			time.Sleep(10 * time.Millisecond)
			readers = append(readers, w.followWith("a", 10*i, func() { time.Sleep(time.Duration(rand.N(1500)) * time.Microsecond) }))
		}
		writing.Wait()
		time.Sleep(10 * time.Second)
		for i, r := range readers {
			r.wants(items-10*i, nil)
		}
		naive.Wait()
		wrong := 0
		for i, sequence := range seen {
			if sequence != i {
				wrong++
			}
		}
		if wrong == 0 {
			t.Error("the harness does not find what the naive follower misses")
		}
	})
}

// The lag is for how long a follower has not been given what there is to read, over all reads until the end.
func TestLag(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		lag := func(want time.Duration) {
			t.Helper()
			synctest.Wait()
			if all, _, got := w.h.Followers(); got != want {
				t.Errorf("the lag of %d is %v, not %v", all, got, want)
			}
		}
		w.create("a")
		w.readTakes = 10 * time.Millisecond
		w.follow("a", 0)
		lag(0) // it has just begun to look
		time.Sleep(15 * time.Millisecond)
		lag(0)
		time.Sleep(time.Minute)
		w.h.Tell(w.add("a", 1))
		time.Sleep(7 * time.Millisecond)
		lag(7 * time.Millisecond)
		time.Sleep(5 * time.Millisecond)
		lag(0)

		w.create("b") // which takes ten reads
		w.add("b", 1000)
		reader := w.follow("b", 0)
		time.Sleep(55 * time.Millisecond)
		lag(55 * time.Millisecond)
		time.Sleep(50 * time.Millisecond)
		reader.wants(1000, nil)
		lag(0)

		w.fail(errPasses)
		w.h.Tell(w.add("b", 1))
		time.Sleep(20 * time.Second)
		lag(20 * time.Second)
		w.fail(nil)
		time.Sleep(2 * time.Second)
		lag(0)

		// The body of a loop is no excuse, until the loop ends.
		w.add("b", 1000)
		slow := w.followWith("b", 0, func() { time.Sleep(time.Second) })
		time.Sleep(time.Minute)
		lag(time.Minute)
		slow.stop()
		time.Sleep(time.Minute)
		lag(0)
	})
}
