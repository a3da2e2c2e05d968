package repotest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// timed are the tests in which something expires, or something else takes its time.
func timed() map[string]bool {
	tests := map[string]bool{
		"PlanEnds/MaxAge": true, "LeaseRaces/Expiry": true, "LeaseRaces/Hold": true, "LeaseRaces/HoldEnds": true,
		"LeaseRaces/WaitsForExpiry": true, "StreamsFollow/Expiry": true, "StreamsFollow/Removal": true,
		"StreamsFollow/RemovalShowsNoOlder": true,
	}
	for _, test := range workTests() {
		tests["Work/"+test.name] = true
	}
	return tests
}

// lives says how long something lives that is to expire.
type lives struct {
	// age ages it. Nil: the test waits.
	age func(t *testing.T, what Aged)
}

// lived is the store of a test in which something expires.
type lived struct {
	repo.Store
	lives lives
}

func (l lived) timing() lives { return l.lives }

// livedView is the same of a view.
type livedView struct {
	lived
	spaced
}

// livesOf returns the lives of a test in which something expires.
func livesOf(r repo.Repositories) lives { return r.(interface{ timing() lives }).timing() }

// ofLife returns a life that ends when elapse is called; or short, which ends by itself.
func (l lives) ofLife(short time.Duration) time.Duration {
	if l.age != nil {
		return time.Hour
	}
	return short
}

// elapse has what has such a life expire, at once or soon.
func (l lives) elapse(t *testing.T, what Aged) {
	t.Helper()
	if l.age != nil {
		l.age(t, what)
	}
}

// inTime runs a test in which something expires.
func (c choice) inTime(t *testing.T, open func(t *testing.T) repo.Store, run func(t *testing.T, store repo.Store)) {
	t.Helper()
	timed := func(t *testing.T) {
		store := open(t)
		with, given := lived{Store: store}, repo.Repositories(store)
		if own, is := store.(unstored); is {
			given = own.Repositories
		}
		if c.age != nil {
			with.lives.age = func(t *testing.T, what Aged) {
				t.Helper()
				c.age(t, given, 2*time.Hour, what)
			}
		}
		if view, is := store.(spaced); is {
			run(t, livedView{with, view})
		} else {
			run(t, with)
		}
	}
	if c.bubbles {
		synctest.Test(t, timed)
	} else {
		timed(t)
	}
}
