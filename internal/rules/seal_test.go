package rules_test

import (
	"testing"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/rules"
)

func TestSealRules(t *testing.T) {
	for limit, want := range map[int]string{1: "", auditlog.MaxSealEntries: "", 0: "is not between", -1: "is not between", auditlog.MaxSealEntries + 1: "is not between"} {
		wantInvalid(t, rules.CheckSealLimit(limit), fieldIf(want, "limit"), want)
	}
	for _, test := range []struct {
		entries int
		bytes   int64
		want    bool
	}{
		{1, 0, true}, {1, auditlog.MaxSealBytes + 1, true}, {2, auditlog.MaxSealBytes, true}, {2, auditlog.MaxSealBytes + 1, false},
	} {
		if got := rules.SealTakes(test.entries, test.bytes); got != test.want {
			t.Errorf("with %d bytes the seal takes entry %d: %t", test.bytes, test.entries, got)
		}
	}
	unsealed := auditlog.Unsealed{Size: 5, Entries: make([]auditlog.Entry, 2)}
	for name, test := range map[string]struct {
		leaves, hidden int
		size           int64
		want           string
	}{
		"whole":             {2, 2, 7, ""},
		"nothing hidden":    {2, 0, 7, "a leaf for each"},
		"a leaf too few":    {1, 1, 7, "a leaf for each"},
		"a leaf too many":   {3, 3, 7, "a leaf for each"},
		"hidden too few":    {2, 1, 7, "a leaf for each"},
		"a lesser size":     {2, 2, 6, "a checkpoint of them all"},
		"its own size only": {2, 2, 2, "a checkpoint of them all"},
	} {
		t.Run(name, func(t *testing.T) {
			seal := auditlog.Seal{
				Leaves: make([][32]byte, test.leaves), Hidden: make([][32]byte, test.hidden), Checkpoint: auditlog.Checkpoint{Size: test.size},
			}
			wantInvalid(t, rules.CheckSeal(unsealed, seal), fieldIf(test.want, "seal"), test.want)
		})
	}
}
