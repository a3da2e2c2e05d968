package main

// Budgets: what is reserved and settled is counted once, and never passes a limit.
var budgetMutants = []mutant{
	{"budget/a limit", in("budget", "Part.add", dropAssign("AtMost")), inBudget("Concurrent")},
	{"budget/a reservation with an id that is taken", in("budget", "Reservation.opening", dropField("IfVersion")), inBudget("Again")},
	{"budget/a settlement that is repeated", in("budget", "Reservation.closing", dropField("IfVersion")), inBudget("Settle")},
	{"budget/a settlement after the reservation has expired", in("budget", "Reservation.closing", neverAll("Expired")), inBudget("Expired")},
	{"budget/a name that was erased", in("budget", "Reservation.closing", always("Version", "isFirst")), inBudget("Erased")},
	{"budget/another reservation with the id", in("budget", "Keeper.locate", always("held.At")), inBudget("SameIDAgain")},
	{"budget/an expired one of another reservation", in("budget", "Reservation.expiredKey", returns("expiredPrefix + r.ID")), inBudget("SameIDAgain")},
	{"budget/a reservation that lives", in("budget", "Keeper.outdated", neverAll("UpdatedAt", "Life")), inBudget("Expired")},
	{"budget/an expiry that is remembered", in("budget", "Keeper.outdated", always("remembered")), inBudget("Forgotten")},
	{"budget/a turn that was stored late", in("budget", "Keeper.settle", neverAll("exists.Kind")), inBudget("LateTurns")},
	{"budget/another request with the id", in("budget", "Keeper.stored", never("r.same")), inBudget("Again")},
	{"budget/a turn whose reservation is stored", in("budget", "Keeper.stored", always("turn.Kind")), inBudget("TurnsAgain")},
	{"budget/a life that ended before a call was begun again", in("budget", "Keeper.stored", dropCase("r.moved")), inBudget("Outlived")},
	{"budget/the clock of the machine", in("clock", "reading.now", swap("r.at", "here")), test("budget", "TestClockOfMachine")},
	{"budget/a turn that is not stored with a reservation that was", in("budget", "Keeper.stored", never("inTurn")), inBudget("TurnsAgain")},
}

func inBudget(part string) killer { return test("budget", "TestBudget/"+part) }
