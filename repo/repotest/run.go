package repotest

import (
	"context"
	"slices"
	"testing"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// Run runs the suite. It calls open once in each subtest; open must close what it opens
// with t.Cleanup. The subtests are parallel: they run when the caller's test returns.
func Run(t *testing.T, open func(t *testing.T) repo.Store, options ...Option) {
	t.Helper()
	run(t, slices.Concat(repositoryGroups(), storeGroups(), raceGroups(), auditStoreGroups()), open, options)
}

// RunAmounts runs the part of the suite that Run leaves out, because it reaches the limits
// of amounts: with the race detector it takes minutes.
func RunAmounts(t *testing.T, open func(t *testing.T) repo.Store) {
	t.Helper()
	run(t, amountGroups(), open, nil)
}

// RunApplication runs the suite without the maintenance of the audit trail
// (sealing, pruning, holds), which requires privileges that a service need not
// have.
func RunApplication(t *testing.T, open func(t *testing.T) repo.Store, options ...Option) {
	t.Helper()
	run(t, slices.Concat(repositoryGroups(), storeGroups(), raceGroups()), open, options)
}

// RunRepositories runs the part of the suite that needs neither a second goroutine
// nor a Store. It is for repositories that are bound to one transaction: the
// transaction remains usable after the errors of the contract, so the same subtests
// apply. It calls bind once in each subtest; bind must end what it begins with
// t.Cleanup.
func RunRepositories(t *testing.T, bind func(t *testing.T) repo.Repositories, options ...Option) {
	t.Helper()
	run(t, repositoryGroups(), func(t *testing.T) repo.Store { return unstored{bind(t)} }, options)
}

// unstored wraps repositories as a store, for subtests that call none of the
// store's own methods.
type unstored struct{ repo.Repositories }

func (unstored) Close() error { panic("repotest: these repositories are no store") }

func (unstored) InTx(context.Context, func(context.Context, repo.Repositories) error) error {
	panic("repotest: these repositories are no store")
}

// auditLog returns the audit log of a store, which every store of the suite has.
func auditLog(store repo.Store) auditlog.Store { return store.(auditlog.Keeper).AuditLog() }

type group struct {
	name  string
	tests []test
}

type test struct {
	name string
	run  func(t *testing.T, store repo.Store)
}

func (g group) run(t *testing.T, open func(t *testing.T) repo.Store, chosen choice, times int) {
	t.Helper()
	t.Run(g.name, func(t *testing.T) {
		t.Parallel()
		for _, test := range g.tests {
			for range times {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					if timed()[g.name+"/"+test.name] {
						chosen.inTime(t, open, test.run)
					} else {
						test.run(t, open(t))
					}
				})
			}
		}
	})
}

// on is a test that needs only the sessions.
func on(name string, run func(t *testing.T, s repo.Sessions)) test {
	return test{name, func(t *testing.T, store repo.Store) { run(t, store.Sessions()) }}
}

func repositoryGroups() []group {
	return []group{
		{"Sessions", sessionTests()},
		{"Keys", keyTests()},
		{"Deletion", deletionTests()},
		{"History", historyTests()},
		{"HistoryEdges", historyEdgeTests()},
		{"Redact", redactTests()},
		{"Update", updateTests()},
		{"Usage", usageTests()},
		{"List", listTests()},
		{"Activity", activityTests()},
		{"Append", appendTests()},
		{"Turns", turnTests()},
		{"Messages", messageTests()},
		{"Stream", streamTests()},
		{"Read", readTests()},
		{"Values", valueTests()},
		{"Export", exportTests()},
		{"Actions", actionTests()},
		{"Use", useTests()},
		{"Lifecycle", lifecycleTests()},
		{"Plans", planListTests()},
		{"Claims", claimTests()},
		{"PlanEnds", planEndTests()},
		{"State", stateTests()},
		{"Leases", leaseTests()},
		{"Streams", streamsTests()},
		{"Fences", fenceTests()},
		{"Audit", auditTests()},
		{"Buffers", bufferTests()},
	}
}

func storeGroups() []group {
	return []group{
		{"Transactions", transactionTests()},
		{"Contexts", contextTests()},
		{"Closing", closingTests()},
		{"Work", workTests()},
		{"StreamsFollow", streamsFollowTests()},
		{"AuditSink", auditSinkTests()},
	}
}

// raceGroups have the tests in which callers race: whether one finds an error depends on
// chance, and so on how often it runs.
func raceGroups() []group {
	return []group{
		{"Concurrency", concurrencyTests()},
		{"TurnRaces", turnRaceTests()},
		{"Follow", followTests()},
		{"MadeAgain", madeAgainTests()},
		{"DeletionRaces", deletionRaces()},
		{"RedactRaces", redactRaceTests()},
		{"PlanRaces", planRaceTests()},
		{"ClaimRaces", claimRaceTests()},
		{"StateRaces", stateRaceTests()},
		{"LeaseRaces", leaseRaceTests()},
		{"StreamsRaces", streamsRaceTests()},
		{"FenceRaces", fenceRaceTests()},
		{"LeftBuffers", []test{{"Append", testLeftAppends}}},
	}
}

// amountGroups need neither a store nor a second goroutine, but they take long, and bounds
// depend neither on a transaction nor on a role.
func amountGroups() []group {
	return []group{{"Amounts", []test{
		on("ReadCut", testReadCut),
		on("ByKeyRead", testByKeyRead),
		onPlans("EachSession", testEachSession),
		onPlans("StateReadLimits", testStateReadLimits),
		onPlans("StateLimits", testStateLimits),
		onPlans("StateExportLong", testStateExportLong),
		on("Export", testExportAmount),
	}}}
}

func auditStoreGroups() []group {
	return []group{
		{"AuditLog", slices.Concat(auditStoreTests(), auditBufferTests())},
	}
}
