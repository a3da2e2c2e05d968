package main

import (
	"strings"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// cell is one server under one setting, with the tests that run there.
type cell struct {
	name    string
	server  server
	setting pgtest.Setting
	tests   []tests
}

// tests are a package's, or those of it that run matches.
type tests struct {
	pkg string
	run string
	// own says that they start servers of their own, which takes binaries.
	own bool
	// long says that the short form leaves them out: the version matters little to
	// them, and they take long.
	long bool
}

// suite is every package that needs a server, but for the benchmarks, the soak
// and what is about a client alone.
var suite = []tests{
	{pkg: "postgres"},
	{pkg: "plans"},
	{pkg: "audit"},
	{pkg: "grants"},
	{pkg: "migrate"},
	{pkg: "seeds"},
	{pkg: "pgbouncer", long: true},
	{pkg: "faults", own: true, long: true},
	{pkg: "failover", own: true, long: true},
	{pkg: "tls", own: true},
}

// conformance is what the contract promises, as a superuser and as the
// application role.
var conformance = []tests{
	{pkg: "postgres", run: "^TestConformance"},
	{pkg: "grants", run: "^TestConformance"},
}

// onePool is that once, on a pool, for the short form and for statements that each
// take their time.
var onePool = []tests{{pkg: "postgres", run: "^TestConformanceOfPool$"}}

// settled are the packages whose tests run under every setting but those that
// are for the store alone.
var settled = []tests{{pkg: "postgres"}, {pkg: "plans"}, {pkg: "audit"}, {pkg: "grants"}, {pkg: "migrate"}, {pkg: "seeds"}}

// makeCells: the suite on each version; each value of each factor on the newest;
// and rows in which every two values, and every value and version, come
// together. In short the settings run on the conformance suite of one pool, and the
// pairs are left to the long form.
func makeCells(servers []server, short bool) []cell {
	var cells []cell
	for _, s := range servers {
		c := cell{name: s.version, server: s}
		for _, tests := range suite {
			if (!tests.own || s.binaries != "") && !(short && tests.long) {
				c.tests = append(c.tests, tests)
			}
		}
		cells = append(cells, c)
	}
	var withBinaries []server // a container's clock and locales are not ours
	for _, s := range servers {
		if s.binaries != "" {
			withBinaries = append(withBinaries, s)
		}
	}
	if len(withBinaries) == 0 {
		return cells
	}
	newest := withBinaries[len(withBinaries)-1]
	for _, f := range factors {
		for _, v := range f.values {
			c := cell{name: newest.version + " " + f.name + "=" + v.name, server: newest, setting: v.setting, tests: settled}
			switch {
			case short || v.slow:
				c.tests = onePool
			case v.setting.Owner:
				c.tests = conformance[:1] // the other makes roles of its own
			case v.store:
				c.tests = conformance
			}
			cells = append(cells, c)
		}
	}
	if short {
		return cells
	}
	return append(cells, makePairs(withBinaries)...)
}

func makePairs(servers []server) []cell {
	levels := []int{len(servers)}
	for _, f := range factors {
		levels = append(levels, 1+len(f.values)) // 0 is what a new server has
	}
	var cells []cell
	for _, row := range coverPairs(levels) {
		c := cell{server: servers[row[0]], tests: conformance}
		names, slow := []string{c.server.version}, false
		for i, level := range row[1:] {
			if level == 0 {
				continue
			}
			v := factors[i].values[level-1]
			names = append(names, factors[i].name+"="+v.name)
			c.setting = c.setting.Merge(v.setting)
			slow = slow || v.slow
		}
		switch {
		case slow:
			c.tests = onePool
		case c.setting.Owner:
			c.tests = conformance[:1]
		}
		c.name = strings.Join(names, " ")
		cells = append(cells, c)
	}
	return cells
}
