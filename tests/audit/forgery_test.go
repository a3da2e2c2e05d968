package audit

import (
	"slices"
	"testing"

	trail "github.com/seed-df90f812/agentstore/audit"
)

func kinds(report trail.Report) []string {
	var found []string
	for _, b := range report.Breaks {
		if !slices.Contains(found, string(b.Kind)) {
			found = append(found, string(b.Kind))
		}
	}
	return found
}

// The forgery of the review, word for word.
func TestDeletedBehindPrune(t *testing.T) {
	t.Parallel()
	f := newForged(t)
	f.sql("DELETE FROM audit_entries WHERE id = $1; UPDATE audit_leaves SET pruned_by = gen_random_uuid() WHERE entry_id = $1", f.young[0].ID)
	if report := f.verify(f.held); len(report.Breaks) == 0 {
		t.Errorf("a sealed entry is gone, and the trail verifies against the checkpoint held: %+v", report)
	}
}
