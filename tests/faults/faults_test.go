package faults

import (
	"slices"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Each fault is injected repeatedly under 32 writers that retry by message id. The
// tests of this package are not parallel, because they count goroutines.
// Guarantee: Following: A follower misses no message, whatever fails meanwhile.
// Guarantee: Faults: Through each fault an acknowledged message is stored once.
func TestFaults(t *testing.T) {
	s := newSharedStage(t)
	var outcomes []outcome
	for _, f := range slices.Concat(crashes, networks, limitFaults) {
		t.Run(f.name, func(t *testing.T) { outcomes = append(outcomes, f.run(t, s)) })
	}
	t.Run("context ends", func(t *testing.T) { outcomes = append(outcomes, endContexts(t, s)) })
	disk := newDisk(t)
	for _, f := range disk.faults() {
		t.Run(f.name, func(t *testing.T) { outcomes = append(outcomes, f.run(t, disk.stage)) })
	}
	form := "short form: make faults makes each fault 20 times and more"
	if pgtest.Full() {
		form = "full form"
	}
	t.Logf("%s\n%s", form, table(outcomes))
}
