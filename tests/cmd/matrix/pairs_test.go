package main

import (
	"fmt"
	"slices"
	"testing"
)

func TestCoverPairs(t *testing.T) {
	t.Parallel()
	for _, levels := range [][]int{{2, 2}, {2, 2, 2, 2}, {3, 2, 3, 2, 2, 2, 3, 2}, {4, 3, 2, 3, 2, 2, 2, 3, 2, 2, 2, 2}} {
		rows := coverPairs(levels)
		seen := map[string]bool{}
		for _, row := range rows {
			for f := range row {
				for g := f + 1; g < len(row); g++ {
					seen[fmt.Sprint(f, row[f], g, row[g])] = true
				}
			}
		}
		pairs, product := 0, 1
		for f := range levels {
			product *= levels[f]
			for g := f + 1; g < len(levels); g++ {
				pairs += levels[f] * levels[g]
			}
		}
		if len(seen) != pairs {
			t.Errorf("%v: %d of %d pairs are in a row", levels, len(seen), pairs)
		}
		if len(rows) > product {
			t.Errorf("%v: %d rows are more than all there are", levels, len(rows))
		}
		if !slices.EqualFunc(rows, coverPairs(levels), slices.Equal) {
			t.Errorf("%v: another time there are other rows", levels)
		}
		t.Logf("%v: %d rows", levels, len(rows))
	}
}
