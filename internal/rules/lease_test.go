package rules_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/cursor"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// A cursor holds the longest key, and one that was forged reaches no database.
func TestLeaseListCursors(t *testing.T) {
	first, err := rules.LeaseList("", repo.LeaseFilter{}, repo.Page{})
	if err != nil {
		t.Fatal(err)
	}
	longest := repo.LeaseKey{Kind: strings.Repeat("k", repo.MaxNameBytes), Name: strings.Repeat("n", limits.MaxLeaseNameBytes)}
	next, err := rules.LeaseList("", repo.LeaseFilter{}, repo.Page{After: first.Next(repo.Lease{Key: longest})})
	if err != nil || next.After != longest {
		t.Errorf("the list continues after %+v, %v", next.After, err)
	}
	for _, place := range []repo.LeaseKey{
		{Kind: "a", Name: "b\x00c"}, {Kind: "\x00", Name: "a"}, {Kind: "a", Name: "\xff"}, {Kind: "\xa9", Name: "\xc3"},
	} {
		_, err := rules.LeaseList("", repo.LeaseFilter{}, repo.Page{After: cursor.Encode(place, "leases", "", "", "", "false", "false")})
		if invalid, ok := errors.AsType[*repo.InvalidError](err); !ok || invalid.Field != "page.after" {
			t.Errorf("%q: %v", place, err)
		}
	}
}
