package repotest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Option changes what the suite runs.
type Option func(*choice)

// choice is what the options chose.
type choice struct {
	only    []string
	races   int
	bubbles bool
	lives   lives
}

// Only runs only these groups, which are the first parts of the names of the suite's
// subtests, such as "Values". It is for a store that the suite tests in another form, too.
// The test fails if there is no such group.
func Only(groups ...string) Option {
	return func(c *choice) { c.only = append(c.only, groups...) }
}

// Races runs each subtest of the groups in which callers race so many times: whether it
// finds an error depends on chance. 0 leaves these groups out.
func Races(times int) Option {
	return func(c *choice) { c.races = times }
}

// Bubbles runs the subtests in which something expires in bubbles of package testing/synctest, where time passes once all
// wait. So they take no time, and nothing expires too early on a slow machine. It is for a store that waits for nothing
// outside of its process, and whose goroutines end when t.Cleanup closes it.
func Bubbles() Option {
	return func(c *choice) { c.bubbles = true }
}

// Elapse has the suite call age instead of waiting until something expires. age moves the times of what is named back by
// d, and no others, as if d had passed for it; r is what the subtest was given. The suite then waits until the store
// notices. Without this option and Bubbles it gives what expires as short a life as the contract allows, and waits: a
// subtest whose life was too short for a slow machine begins again with a longer one.
func Elapse(age func(t *testing.T, r repo.Repositories, d time.Duration, what Aged)) Option {
	return func(c *choice) { c.lives.age = age }
}

// Aged names what is to age: of leases and streams when they expire, and of plans until when they may be claimed.
type Aged struct {
	Leases  []repo.Lease
	Streams []repo.Stream
	Plans   []repo.Plan
}

// lives says how long something lives that is to expire.
type lives struct {
	age func(t *testing.T, r repo.Repositories, d time.Duration, what Aged)
	// given is what the suite was given.
	given repo.Repositories
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

// ofLife returns a life that ends when elapse is called, or by itself if there is no way to have time pass: as short as is given.
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
		l.age(t, l.given, 2*time.Hour, what)
	}
}

// inTime runs a test in which something expires.
func (c choice) inTime(t *testing.T, open func(t *testing.T) repo.Store, run func(t *testing.T, store repo.Store)) {
	t.Helper()
	timed := func(t *testing.T) {
		store := open(t)
		with := lived{store, lives{c.lives.age, store}}
		if own, is := store.(unstored); is {
			with.lives.given = own.Repositories
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

// run runs the groups that the options choose.
func run(t *testing.T, groups []group, open func(t *testing.T) repo.Store, options []Option) {
	t.Helper()
	chosen := choice{races: 1}
	for _, option := range options {
		option(&chosen)
	}
	for _, name := range chosen.only {
		if !slices.ContainsFunc(groups, func(g group) bool { return g.name == name }) {
			t.Errorf("repotest: the suite has no group %q here", name)
		}
	}
	races := raceGroups()
	for _, g := range groups {
		if len(chosen.only) > 0 && !slices.Contains(chosen.only, g.name) {
			continue
		}
		times := 1
		if slices.ContainsFunc(races, func(race group) bool { return race.name == g.name }) {
			times = chosen.races
		}
		if times > 0 {
			g.run(t, open, chosen, times)
		}
	}
}
