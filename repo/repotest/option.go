package repotest

import (
	"slices"
	"testing"
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
	age     func(t *testing.T, r repo.Repositories, d time.Duration, what Aged)
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
// d, and no others, as if d had passed for it, also in the transaction in which r is, which open or bind has returned. Then
// the suite waits until the store notices. Without this option and Bubbles it gives what is to expire the shortest life
// that the contract allows, and waits for its end. What expires too early, on a slow machine, is tried again with a longer
// life.
func Elapse(age func(t *testing.T, r repo.Repositories, d time.Duration, what Aged)) Option {
	return func(c *choice) { c.age = age }
}

// Aged names what is to age: leases and streams, by when they expire, and plans, by their deadlines.
type Aged struct {
	Leases  []repo.Lease
	Streams []repo.Stream
	Plans   []repo.Plan
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
