package repotest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// A claim returns fewer plans than it asks for, if they have 16 MiB together: also of those whose claims have expired.
// Guarantee: Claims: The plans of one claim have less than 16 MiB together, or are one.
func testClaimBytes(t *testing.T, r repo.Repositories) {
	const unit, large = repo.MaxMetadataBytes, 16
	definition := repo.ActionDefinition{Reusable: true, MaxAttempts: 5}
	for n := range large {
		definition.Arguments = append(definition.Arguments, repo.Argument{Name: fmt.Sprint("a", n), Type: repo.ArgumentString})
	}
	q, action := newQueue(t, r), createAction(t, r, definition)
	text := json.RawMessage(`"` + strings.Repeat("x", unit-2) + `"`) // which is compressed well where it is stored
	var ids []repo.ID
	sizes := map[repo.ID]int{}
	for _, size := range []int{large, 7, 8, 1, 0} {
		use := repo.UseAction{Namespace: q.namespace}
		for _, a := range definition.Arguments[:size] {
			use.Arguments = append(use.Arguments, repo.ArgumentValue{Name: a.Name, Value: text})
		}
		id := usePlan(t, r, action, use).ID
		ids, sizes[id] = append(ids, id), size
		tick()
	}
	claim := repo.Claim{Owner: randomName(), Namespaces: []string{q.namespace}, Limit: 100, TTL: time.Hour}
	left := len(ids)
	bounded := func() (claimed []repo.ClaimedPlan) {
		bytes := 0
		claimed = q.take(claim)
		for _, c := range claimed {
			bytes += rules.PlanBytes(c.Plan)
			if got := rules.PlanBytes(c.Plan) / unit; got != sizes[c.Plan.ID] {
				t.Errorf("a plan of %d MiB has %d", sizes[c.Plan.ID], got)
			}
		}
		if left -= len(claimed); bytes >= limits.MaxReadBytes && len(claimed) > 1 {
			t.Errorf("%d plans have %d bytes", len(claimed), bytes)
		}
		return claimed
	}
	var leases []repo.Lease
	for _, want := range []int{1, 2, 2} {
		claimed := bounded()
		wantClaimed(t, claimed, ids[:want]...)
		for _, c := range claimed {
			leases = append(leases, c.Lease)
		}
		ids = ids[want:]
	}
	if left > 0 {
		t.Fatalf("%d plans are left", left)
	}
	for _, lease := range leases {
		release(t, r, lease)
	}
	left = len(leases)
	for left > 0 && !t.Failed() {
		var claimed []repo.ClaimedPlan
		await.For(t, "a plan is claimed", func() bool { // a sweep may have it locked
			claimed = bounded()
			return len(claimed) > 0
		})
		if slices.ContainsFunc(claimed, func(c repo.ClaimedPlan) bool { return c.Plan.Attempt != 2 }) {
			t.Errorf("of %d plans whose claims have ended, claimed %v", left, idsOf(claimed))
		}
	}
}
