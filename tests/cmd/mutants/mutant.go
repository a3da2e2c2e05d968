package main

import (
	"fmt"
	"strings"
)

// mutant is one small change that a test must notice.
type mutant struct {
	// name is an area, a slash, and what is wrong.
	name   string
	change change
	killer killer
}

func (m mutant) area() string {
	area, _, _ := strings.Cut(m.name, "/")
	return area
}

// killer says which test must fail: those of a package, relative to the root, that run
// matches.
type killer struct {
	pkg, run string
	race     bool
}

// test returns the killer that is one test, or some of its subtests. Each part of its name is
// a regular expression for the whole part.
func test(pkg, name string) killer {
	return killer{pkg: pkg, run: "^" + strings.ReplaceAll(name, "/", "$/^") + "$"}
}

func inPostgres(name string) killer { return test("tests/postgres", name) }

// inPool is a part of the conformance suite on a pool.
func inPool(part string) killer { return inPostgres("TestConformanceOfPool/" + part) }

func inMemory(part string) killer { return test("repo/memory", "TestConformance/"+part) }

func inAudit(name string) killer { return test("tests/audit", name) }

// raced is a killer that needs the race detector.
func raced(k killer) killer {
	k.race = true
	return k
}

// change is a kind of change to one place in the tree. The place has a name that survives
// refactoring.
type change struct {
	// place and what are for people.
	place, what string
	about       []string
	// query is the name of the query that is changed, if it is one.
	query string
	find  func(*tree) (edited, error)
}

func (c change) String() string { return c.place + ": " + c.what }

// resolve finds the place. It fails if there is none, or more than one.
func (c change) resolve(t *tree) (edited, error) {
	found, err := c.find(t)
	if err != nil {
		return edited{}, fmt.Errorf("%s: %w", c, err)
	}
	return found, nil
}

// edited is a file, relative to the root, with what is changed in it.
type edited struct {
	path, text string
	edits      []edit
	// function is the one that is changed, if it is one of Go.
	function *goFunction
}

// edit replaces the bytes from from up to to. Edits of a file do not overlap, and are in order.
type edit struct {
	from, to int
	with     string
}

// apply returns the changed file.
func (e edited) apply() string {
	var changed strings.Builder
	at := 0
	for _, one := range e.edits {
		changed.WriteString(e.text[at:one.from])
		changed.WriteString(one.with)
		at = one.to
	}
	changed.WriteString(e.text[at:])
	return changed.String()
}

// line is the first line that is changed, from 1.
func (e edited) line() int { return 1 + strings.Count(e.text[:e.edits[0].from], "\n") }

// all returns the mutants in the order in which they are tried.
func all() (all []mutant) {
	for _, area := range [][]mutant{
		schedulerMutants, outcomeMutants, appendMutants, turnMutants, historyMutants, sessionMutants, viewMutants, directoryMutants, budgetMutants, fileMutants, stateMutants, effectMutants, planMutants, claimMutants,
		leaseMutants, streamMutants, approvalMutants, inspectorMutants, followMutants, auditMutants, schemaMutants, migrationMutants,
	} {
		all = append(all, area...)
	}
	return all
}
