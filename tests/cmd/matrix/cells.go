package main

import (
	"strings"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// cell is a server under a setting, with the tests that run on it.
type cell struct {
	name    string
	server  server
	setting pgtest.Setting
	tests   []tests
}

// tests are those of a package that run matches. Empty: all of them.
type tests struct {
	pkg string
	run string
	// own: they start servers of their own, which needs binaries.
	own bool
	// long: they take long and depend little on the version, so the short form omits
	// them, or all but those that short matches.
	long  bool
	short string
}

// suite has the packages that need a server, except benchmarks, the soak test and tests
// of clients only.
var suite = []tests{
	{pkg: "postgres", long: true, short: "^Test(ConformanceOf(Pool|Bind)|.*Plan.*|Constraint|EveryField|Claim|Stream|Fence|Follow|Open|Settings)"},
	{pkg: "plans"},
	{pkg: "audit", long: true},
	{pkg: "grants", long: true, short: "^Test(Every|Grants|No|Audit|Reader|Application)"},
	{pkg: "migrate"},
	{pkg: "bugreports", long: true},
	{pkg: "pgbouncer", long: true},
	{pkg: "faults", own: true, long: true},
	{pkg: "failover", own: true, long: true},
	{pkg: "tls", own: true},
	{pkg: "copies", own: true},
}

// conformance is the conformance suite, as a superuser and as the application role.
var conformance = []tests{
	{pkg: "postgres", run: "^TestConformance"},
	{pkg: "grants", run: "^TestConformance"},
}

// onePool is the conformance suite once, on a pool: for the short form, and for values
// under which statements are slow.
var onePool = []tests{{pkg: "postgres", run: "^TestConformanceOfPool$"}}

// fewOfOnePool is its transactions, which have statements of each kind.
var fewOfOnePool = []tests{{pkg: "postgres", run: "^TestConformanceOfPool$/^Transactions$"}}

// settled has the packages whose own SQL also runs under most settings: see value.store.
var settled = []tests{{pkg: "postgres"}, {pkg: "plans"}, {pkg: "audit"}, {pkg: "grants"}, {pkg: "migrate"}, {pkg: "bugreports"}}

// makeCells returns the suite on each version; each value of each factor on the newest
// version; and cells in which each pair of values, and of a value and a version, occurs.
// The short form has each value once, with as many others as possible in one cell, on the
// conformance suite of one pool.
func makeCells(servers []server, short bool) []cell {
	var cells []cell
	for _, s := range servers {
		c := cell{name: s.version, server: s}
		for _, tests := range suite {
			if tests.own && s.binaries == "" || short && tests.long && tests.short == "" {
				continue
			}
			if short {
				tests.run = tests.short
			}
			c.tests = append(c.tests, tests)
		}
		cells = append(cells, c)
	}
	var withBinaries []server // a container's clock and locales cannot be chosen
	for _, s := range servers {
		if s.binaries != "" {
			withBinaries = append(withBinaries, s)
		}
	}
	if len(withBinaries) == 0 {
		return cells
	}
	newest := withBinaries[len(withBinaries)-1]
	if short {
		return append(cells, makeShort(newest)...)
	}
	for _, f := range factors {
		for _, v := range f.values {
			c := cell{name: newest.version + " " + f.name + "=" + v.name, server: newest, setting: v.setting, tests: settled}
			switch {
			case v.slow:
				c.tests = onePool
			case v.setting.Owner:
				c.tests = conformance[:1] // the other creates roles
			case v.store:
				c.tests = conformance
			}
			cells = append(cells, c)
		}
	}
	return append(cells, makePairs(withBinaries)...)
}

// makeShort returns cells of which the first has the first value of each factor, and so
// on. A slow value has a cell of its own.
func makeShort(s server) []cell {
	var cells []cell
	for i, more := 0, true; more; i++ {
		c := cell{name: s.version, server: s, tests: onePool}
		more = false
		for _, f := range factors {
			if i >= len(f.values) {
				continue
			}
			more = true
			v := f.values[i]
			name := " " + f.name + "=" + v.name
			if v.slow {
				cells = append(cells, cell{name: s.version + name, server: s, setting: v.setting, tests: fewOfOnePool})
				continue
			}
			c.name += name
			c.setting = c.setting.Merge(v.setting)
		}
		if more {
			cells = append(cells, c)
		}
	}
	return cells
}

func makePairs(servers []server) []cell {
	levels := []int{len(servers)}
	for _, f := range factors {
		levels = append(levels, 1+len(f.values)) // 0 is the value of a new server
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
