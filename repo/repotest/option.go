package repotest

import (
	"slices"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// Option changes what the suite runs.
type Option func(*choice)

// choice is what the options chose.
type choice struct {
	only  []string
	races int
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
			g.run(t, open, times)
		}
	}
}
