package main

import "strings"

// limit is a failure that is known and documented.
type limit struct {
	// cell is a part of the cell's name, pkg the package, and part the beginning of the
	// name of a part of the conformance suite, which several tests run.
	cell, pkg, part string
	// where is where it is documented.
	where string
}

// limits should be few: each weakens a promise.
var limits = []limit{
	steps("Claims/"), steps("ClaimRaces/"), steps("Leases/"), steps("LeaseRaces/"), steps("Streams/"), steps("StreamsFollow/"), steps("StreamsRaces/"),
	steps("Activity/"), steps("Audit/"), steps("Lifecycle/Audit"), steps("Lifecycle/EveryCell"), steps("State/SessionDeleted"), steps("State/SetAgainAfterErase"),
	steps("Actions/Update"), steps("Turns/Whole"), steps("Turns/UsageIsNoActivity"), steps("Work/Lost"), steps("Work/Owed"), steps("Work/Stalled"),
}

// steps is a part of the conformance suite that may fail if the server's clock steps while
// it runs, because it expects that what is done later has a later time, or expires later.
// tests/clock has what is promised then.
func steps(part string) limit {
	return limit{"clock=steps-back", "postgres", part, "docs/guarantees.md, Limits"}
}

func (l limit) covers(c cell, pkg, test string) bool {
	suite, part, _ := strings.Cut(test, "/")
	return strings.Contains(c.name, l.cell) && l.pkg == pkg && strings.HasPrefix(suite, "TestConformance") && strings.HasPrefix(part, l.part)
}

// known returns the limit that covers a failure.
func known(c cell, pkg, test string) (limit, bool) {
	for _, l := range limits {
		if l.covers(c, pkg, test) {
			return l, true
		}
	}
	return limit{}, false
}
