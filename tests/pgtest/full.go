package pgtest

import (
	"os"

	"github.com/seed-df90f812/agentstore/repo/repotest"
)

// Full reports whether AGENTSTORE_TEST_FULL is set, as make test/full does: tests then repeat
// what depends on chance, and do with large amounts, and in every mode, what they otherwise
// do with small ones, and in those modes in which it makes a difference. They check the same.
func Full() bool { return os.Getenv("AGENTSTORE_TEST_FULL") != "" }

// Choose returns a size: inFull in a full run, and otherwise usually.
func Choose[N any](inFull, usually N) N {
	if Full() {
		return inFull
	}
	return usually
}

// Races says how often the conformance suite runs its races.
func Races() repotest.Option { return repotest.Races(Choose(5, 1)) }

// Parts returns options with which the conformance suite runs only these groups, except in a
// full run.
func Parts(groups ...string) []repotest.Option {
	if Full() {
		return []repotest.Option{Races()}
	}
	return []repotest.Option{repotest.Only(groups...)}
}
