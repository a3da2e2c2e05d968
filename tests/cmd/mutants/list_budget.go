package main

// Budgets: what is reserved and settled is counted once, and never passes a limit.
var budgetMutants = []mutant{
	{"budget/a limit", in("budget", "Part.add", dropAssign("AtMost")), inBudget("Concurrent")},
	{"budget/a reservation with an id that is taken", in("budget", "Reservation.opening", dropField("IfVersion")), inBudget("Again")},
	{"budget/a settlement that is repeated", in("budget", "Reservation.closing", dropField("IfVersion")), inBudget("Settle")},
	{"budget/a settlement after the reservation has expired", in("budget", "Reservation.closing", neverAll("Expired")), inBudget("Expired")},
	{"budget/a name that was erased", in("budget", "Reservation.closing", always("Version", "isFirst")), inBudget("Erased")},
	{"budget/another reservation with the id", in("budget", "Keeper.locate", always("held.At")), inBudget("SameIDAgain")},
	{"budget/an expired one of another reservation", in("budget", "Keeper.locate", always("expired")), inBudget("SameIDAgain")},
	{"budget/a reservation that lives", in("budget", "Keeper.outdated", neverAll("UpdatedAt", "Life")), inBudget("Expired")},
	{"budget/an expiry that is remembered", in("budget", "Keeper.outdated", always("remembered")), inBudget("Forgotten")},
	{"budget/a turn that was stored late", in("budget", "Keeper.settle", swap("true", "false", "Expired")), inBudget("LateTurns")},
	{"budget/another request with the id", in("budget", "Keeper.reserve", never("r.same")), inBudget("Again")},
	{"budget/the clock of the machine", in("budget", "reading.now", swap("r.at", "here")), test("budget", "TestClockOfMachine")},
	{"budget/a turn that is not stored with a reservation that was", in("budget", "Keeper.reserve", never("in", "r.same")), inBudget("TurnsAgain")},
}

func inBudget(part string) killer { return test("budget", "TestBudget/"+part) }
