package main

const inEffects = "effect"

func effects(name string) killer { return test(inEffects, "TestEffects/"+name) }

// Effects: one call at a time, and none again that may have happened.
var effectMutants = []mutant{
	{"effects/written over what others have written", in(inEffects, "record.changes", dropField("IfVersion")), effects("AtOnce")},
	{"effects/unknown while it is under way", in(inEffects, "record.overdue", never("at.After")), effects("Overdue")},
	{"effects/under way for ever", in(inEffects, "record.overdue", always("at.After")), effects("Overdue")},
	{"effects/a result for other arguments", in(inEffects, "Once", never("r.Arguments")), effects("Result")},
	{"effects/a late answer over a decision", in(inEffects, "once.settle", always("wanted.By")), effects("LateAnswers")},
	{"effects/sent when the key may be forgotten", in(inEffects, "once.reconcile", always("at.Add")), effects("Window")},
	{"effects/never sent again", in(inEffects, "once.reconcile", never("at.Add")), effects("Key")},
	{"effects/permitted each time", in(inEffects, "once.reserve", always("r.Permitted")), effects("Permit")},
	{"effects/an unknown state", in(inEffects, "decode", never("slices.Contains")), effects("Invalid")},
	{"effects/a lost answer is another caller's", in(inEffects, "record.write", never("same")), effects("LostAnswers")},
	{"effects/asked again", in(inEffects, "once.reconcile", always("r.Asked")), effects("Ask")},
	{"effects/an error is taken for a failure", in(inEffects, "stateAfter", returns("StateFailed", "StateUnknown")), effects("Ends")},
	{"effects/not sent again is taken for never sent", in(inEffects, "stateAfter", always("doubt")), effects("Doubt")},
	{"effects/the window begins when the call failed", in(inEffects, "once.settle", neverAll("StateUnknown")), effects("Since")},
	{"effects/an answer about another sending", in(inEffects, "Resolve", never("r.Attempts")), effects("OfAttempt")},
	{"effects/a fork sends with its parent's permit", in(inEffects, "once.reserve", never("r.From")), effects("ForkSends")},
}
