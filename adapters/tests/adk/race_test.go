package adk

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/adk/v2/session"
)

const (
	writers = 8
	each    = 20 // events of each writer
)

// outcome is what became of the events of racing writers, each of which set a key of its
// own: the appends that were refused, the keys and events that were acknowledged and are
// missing, and the events that are stored before an earlier one of their writer.
type outcome struct{ refused, lostKeys, lostEvents, misplaced int }

// race has each writer append its events to its session. One that is refused reads the
// session again, as the framework's error asks for, and tries again, a bounded number of
// times.
func race(t *testing.T, service session.Service, prefix string, sessions ...session.Session) (result outcome) {
	t.Helper()
	var mu sync.Mutex
	acknowledged := map[string]session.Session{}
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			current := sessions[writer%len(sessions)]
			for i := range each {
				name := fmt.Sprintf("%d/%d", writer, i)
				refused := 0
				for ; refused < 20; refused++ {
					fresh, err := get(t.Context(), service, current)
					if err != nil {
						t.Error(err)
						return
					}
					event := &session.Event{ID: fmt.Sprintf("%s/%d", name, refused), InvocationID: name, Author: "user", Timestamp: time.Now()}
					event.Actions.StateDelta = map[string]any{prefix + name: "set"}
					if service.AppendEvent(t.Context(), fresh, event) == nil {
						break
					}
				}
				mu.Lock()
				result.refused += refused
				if refused < 20 {
					acknowledged[name] = current
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	stored, events := map[session.Session]session.Session{}, map[string]bool{}
	for _, s := range sessions {
		now, err := get(t.Context(), service, s)
		if err != nil {
			t.Fatal(err)
		}
		stored[s] = now
		last := make([]int, writers)
		for event := range now.Events().All() {
			var writer, i int
			if _, err := fmt.Sscanf(event.InvocationID, "%d/%d", &writer, &i); err != nil {
				t.Fatal(err)
			}
			events[event.InvocationID] = true
			if i < last[writer] {
				result.misplaced++
			}
			last[writer] = i
		}
	}
	for name, s := range acknowledged {
		if _, err := stored[s].State().Get(prefix + name); err != nil {
			result.lostKeys++
		}
		if !events[name] {
			result.lostEvents++
		}
	}
	return result
}

// Racing writers of one session, and of the application's and the user's keys from sessions
// of their own, lose nothing and are never refused. The framework's own database service
// loses keys that it has acknowledged, in the same race.
func TestRacingWritersLoseNothing(t *testing.T) {
	t.Parallel()
	for prefix, sessions := range map[string]int{"": 1, "app:": writers, "user:": writers} {
		t.Run("state of "+prefix, func(t *testing.T) {
			t.Parallel()
			several := func(service session.Service) (all []session.Session) {
				for range sessions {
					all = append(all, create(t, service))
				}
				return all
			}
			service := ours(t)
			if got := race(t, service, prefix, several(service)...); got != (outcome{}) {
				t.Errorf("%+v", got)
			}
			service = theirs(t)
			for range 20 {
				if got := race(t, service, prefix, several(service)...); got.lostKeys > 0 {
					t.Logf("the framework's own, of %d events: %+v", writers*each, got)
					return
				}
			}
			t.Error("the harness does not see what the framework's own service loses")
		})
	}
}

// An append to a session that was read before another append is stored after that. The
// framework's own service refuses it.
func TestStaleSession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		service session.Service
		stored  int
	}{"ours": {ours(t), 2}, "theirs": {theirs(t), 1}} {
		first := create(t, c.service)
		stale, err := get(t.Context(), c.service, first)
		if err != nil {
			t.Fatal(err)
		}
		for i, handle := range []session.Session{first, stale} {
			_ = c.service.AppendEvent(t.Context(), handle, &session.Event{ID: fmt.Sprint(i), Author: "user", Timestamp: time.Now().Add(time.Minute)})
		}
		now, err := get(t.Context(), c.service, first)
		if err != nil {
			t.Fatal(err)
		}
		if got := now.Events().Len(); got != c.stored {
			t.Errorf("%s: %d events, want %d", name, got, c.stored)
		}
	}
}
