package main

import "strings"

// limit is a failure that is known and documented.
type limit struct {
	// cell is a part of the cell's name; pkg the package; test the beginning of
	// the test's name.
	cell, pkg, test string
	// where says where it is documented.
	where string
}

// limits are as few as can be: each is a promise less.
var limits = []limit{}

func (l limit) covers(c cell, pkg, test string) bool {
	return strings.Contains(c.name, l.cell) && l.pkg == pkg && strings.HasPrefix(test, l.test)
}

// known returns the limits that cover a failure.
func known(c cell, pkg, test string) (limit, bool) {
	for _, l := range limits {
		if l.covers(c, pkg, test) {
			return l, true
		}
	}
	return limit{}, false
}
