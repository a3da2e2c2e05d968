package main

// coverPairs returns rows with a level for each factor, such that each pair of levels of
// two factors is in at least one row. levels has the number of levels of each factor.
// The algorithm is greedy and deterministic: a row begins with the first pair that is in
// no row yet, and each other factor gets the level that adds the most new pairs.
func coverPairs(levels []int) [][]int {
	type pair struct{ f, a, g, b int } // f < g
	var open []pair
	missing := map[pair]bool{}
	for f := range levels {
		for g := f + 1; g < len(levels); g++ {
			for a := range levels[f] {
				for b := range levels[g] {
					open = append(open, pair{f, a, g, b})
					missing[pair{f, a, g, b}] = true
				}
			}
		}
	}
	between := func(f, a, g, b int) pair {
		if f < g {
			return pair{f, a, g, b}
		}
		return pair{g, b, f, a}
	}
	var rows [][]int
	for _, first := range open {
		if !missing[first] {
			continue
		}
		row := make([]int, len(levels))
		for f := range row {
			row[f] = -1
		}
		row[first.f], row[first.g] = first.a, first.b
		for f := range row {
			if row[f] >= 0 {
				continue
			}
			best, most := 0, -1
			for a := range levels[f] {
				adds := 0
				for g, b := range row {
					if b >= 0 && missing[between(f, a, g, b)] {
						adds++
					}
				}
				if adds > most {
					best, most = a, adds
				}
			}
			row[f] = best
		}
		for f := range row {
			for g := f + 1; g < len(row); g++ {
				delete(missing, pair{f, row[f], g, row[g]})
			}
		}
		rows = append(rows, row)
	}
	return rows
}
