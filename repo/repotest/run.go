package repotest

import (
	"context"
	"slices"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// Run runs the whole suite. open is called once in each subtest; what it opens,
// it closes with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) repo.Store) {
	t.Helper()
	for _, group := range slices.Concat(repositoryGroups(), storeGroups(), keeperGroups()) {
		group.run(t, open)
	}
}

// RunApplication runs the suite but for the keeping of the audit trail (sealing,
// pruning, holds), which takes rights that a service need not have.
func RunApplication(t *testing.T, open func(t *testing.T) repo.Store) {
	t.Helper()
	for _, group := range slices.Concat(repositoryGroups(), storeGroups()) {
		group.run(t, open)
	}
}

// RunRepositories runs the part of the suite that needs neither a second
// goroutine nor a Store. It is for repositories that are bound to one
// transaction: the errors that the contract names are answers, after which the
// transaction goes on, so the same subtests hold there. bind is called once in
// each subtest; what it begins, it ends with t.Cleanup.
func RunRepositories(t *testing.T, bind func(t *testing.T) repo.Repositories) {
	t.Helper()
	for _, group := range repositoryGroups() {
		group.run(t, func(t *testing.T) repo.Store { return unstored{bind(t)} })
	}
}

// unstored are repositories in the place of a store. The subtests that run on
// them call nothing of a store's.
type unstored struct{ repo.Repositories }

func (unstored) Close() error { panic("repotest: these repositories are no store") }

func (unstored) Trail() repo.AuditStore { panic("repotest: these repositories are no store") }

func (unstored) InTx(context.Context, func(context.Context, repo.Repositories) error) error {
	panic("repotest: these repositories are no store")
}

type group struct {
	name  string
	tests []test
}

type test struct {
	name string
	run  func(t *testing.T, store repo.Store)
}

func (g group) run(t *testing.T, open func(t *testing.T) repo.Store) {
	t.Helper()
	t.Run(g.name, func(t *testing.T) {
		for _, test := range g.tests {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				test.run(t, open(t))
			})
		}
	})
}

// on is a test that needs no more than the sessions.
func on(name string, run func(t *testing.T, s repo.Sessions)) test {
	return test{name, func(t *testing.T, store repo.Store) { run(t, store.Sessions()) }}
}

func repositoryGroups() []group {
	return []group{
		{"Sessions", sessionTests()},
		{"Update", updateTests()},
		{"Usage", usageTests()},
		{"List", listTests()},
		{"Append", appendTests()},
		{"Messages", messageTests()},
		{"Stream", streamTests()},
		{"Values", valueTests()},
		{"Port", portTests()},
		{"Actions", actionTests()},
		{"Use", useTests()},
		{"Lifecycle", lifecycleTests()},
		{"Plans", planListTests()},
		{"Audit", auditTests()},
		{"Buffers", bufferTests()},
	}
}

func storeGroups() []group {
	return []group{
		{"Transactions", transactionTests()},
		{"Contexts", contextTests()},
		{"Concurrency", concurrencyTests()},
		{"Closing", closingTests()},
		{"PlanRaces", planRaceTests()},
		{"Trail", trailTests()},
		{"LeftBuffers", []test{{"Append", testLeftAppends}}},
	}
}

func keeperGroups() []group {
	return []group{
		{"Keeping", slices.Concat(keepingTests(), trailBufferTests())},
	}
}
