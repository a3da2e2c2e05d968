package wrongstore

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/repotest"
)

// TestSuite runs the conformance suite on the store with the fault that the
// environment names, in a process that TestWrongStoresFail starts. It runs only the groups
// that must find the fault.
func TestSuite(t *testing.T) {
	fault, found := faults[os.Getenv(faultEnv)]
	if !found { // the store without a fault is tested in its own package
		return
	}
	repotest.Run(t, func(t *testing.T) repo.Store {
		store := memory.New()
		t.Cleanup(func() { _ = store.Close() })
		return fault.wrap(store)
	})
}

// fault is a planted error, and the subtests that must find it.
type fault struct {
	wrap  func(repo.Store) repo.Store
	fails string
}

var faults = map[string]fault{
	"sequence by count":       {func(s repo.Store) repo.Store { return countingStore{s} }, "Concurrency/AppendToOne"},
	"unconditional moves":     {func(s repo.Store) repo.Store { return unconditionalStore{s} }, "PlanRaces/Transitions"},
	"versions ignored":        {func(s repo.Store) repo.Store { return versionlessStore{s} }, "Lifecycle/Versions"},
	"memory shared":           {func(s repo.Store) repo.Store { return newSharingStore(s) }, "Sessions/Copies Append/Arguments Use/Copies Buffers/Sessions Buffers/Plans"},
	"plans cached":            {func(s repo.Store) repo.Store { return newCachingStore(s) }, "Lifecycle/EveryCell"},
	"arguments unchecked":     {func(s repo.Store) repo.Store { return uncheckedStore{s} }, "Use/Arguments"},
	"no transactions":         {func(s repo.Store) repo.Store { return looseStore{s} }, "PlanRaces/Rollback"},
	"followers have queues":   {newQueueStore, "Follow/Slow Follow/EveryWay Follow/Race"},
	"create looks, then acts": {func(s repo.Store) repo.Store { return naiveStore{s} }, "PlanRaces/CreateAction"},
	"use looks, then acts":    {newLookingStore, "PlanRaces/Use"},
}

func TestWrongStoresFail(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			binary, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			var groups []string
			for test := range strings.FieldsSeq(fault.fails) {
				group, _, _ := strings.Cut(test, "/")
				groups = append(groups, group)
			}
			run := "-test.run=^TestSuite$/^(" + strings.Join(groups, "|") + ")$"
			command := exec.CommandContext(await.Context(t), binary, run, "-test.timeout=0")
			command.Env = append(os.Environ(), faultEnv+"="+name, "AGENTSTORE_TEST_PATIENCE=1m")
			output, err := command.CombinedOutput()
			// The suite must have failed, not crashed or timed out.
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
				t.Fatalf("the suite ended with %v, want its failure", err)
			}
			failed := failures(string(output))
			t.Logf("failed: %s", strings.Join(failed, " "))
			for test := range strings.FieldsSeq(fault.fails) {
				if !slices.Contains(failed, test) {
					t.Errorf("%s did not fail", test)
				}
			}
		})
	}
}

// failures returns the names of the failed subtests.
func failures(output string) []string {
	var names []string
	for line := range strings.Lines(output) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: TestSuite/"); found {
			name, _, _ = strings.Cut(name, " ")
			names = append(names, name)
		}
	}
	return names
}
