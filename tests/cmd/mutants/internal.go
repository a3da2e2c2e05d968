package main

const conformance = "^TestConformance$/"

var internalMutants = []mutant{
	{
		name: "inside/a unit of work that has ended", file: "internal/inside/inside.go",
		old:   "m.of == of && !m.ended.Load()",
		new:   "m.of == of",
		tests: []tests{{"internal/inside", "^TestInside$"}},
	},
	{
		name: "inside/of whatever it is", file: "internal/inside/inside.go",
		old:   "m.of == of && !m.ended.Load()",
		new:   "!m.ended.Load()",
		tests: []tests{{"internal/inside", "^TestInside$"}},
	},
	{
		name: "inside/the outer one forgotten", file: "internal/inside/inside.go",
		old:   "m = m.outer {",
		new:   "m = nil {",
		tests: []tests{{"internal/inside", "^TestInside$"}},
	},
	{
		name: "ctxio/a stalled call is waited for", file: "internal/ctxio/ctxio.go",
		old:   "	case <-ctx.Done():\n		return 0, ctx.Err()\n	}\n}",
		new:   "	}\n}",
		tests: []tests{{"internal/ctxio", "^TestStalled$"}},
	},
	{
		name: "ctxio/a call with an ended context", file: "internal/ctxio/ctxio.go",
		old:   "	if err := ctx.Err(); err != nil {\n		return 0, err\n	}\n",
		new:   "",
		tests: []tests{{"internal/ctxio", "^TestEndedContextCallsNothing$"}},
	},
	{
		name: "ctxio/a buffer that a stalled Read still has", file: "internal/ctxio/ctxio.go",
		old:        "		r.buffer = nil // the Read may go on\n",
		new:        "		r.err = err\n",
		tests:      []tests{{"internal/ctxio", "^TestStalled"}},
		equivalent: "the reader has its error from then on, so that nobody asks for the buffer again",
	},
	{
		name: "ctxio/the caller's own bytes are lent", file: "internal/ctxio/ctxio.go",
		old:   "	w.buffer = append(w.buffer[:0], p...)\n	buffer := w.buffer",
		new:   "	buffer := p",
		tests: []tests{{"internal/ctxio", "^TestStalledWriteHasItsOwnBytes$"}},
	},
	{
		name: "ctxio/a count that cannot be", file: "internal/ctxio/ctxio.go",
		old:   "	case n < 0 || n > len(buffer):\n		n, err = 0, errCount\n	}\n	r.rest",
		new:   "	}\n	r.rest",
		tests: []tests{{"internal/ctxio", "^TestImpossibleCounts$"}},
	},
	{
		name: "ctxio/a short write", file: "internal/ctxio/ctxio.go",
		old:   "	case n < len(buffer) && err == nil:\n		err = io.ErrShortWrite\n",
		new:   "",
		tests: []tests{{"internal/ctxio", "^TestImpossibleCounts$"}},
	},
	{
		name: "ctxio/a panic in another goroutine", file: "internal/ctxio/ctxio.go",
		old:   "			panic(got.panicked)",
		new:   "			return 0, got.err",
		tests: []tests{{"internal/ctxio", "^TestPanics$"}},
	},
	{
		name: "settings/pinned beside another spelling", file: "internal/pgsettings/settings.go",
		old:   "			if strings.EqualFold(given, name) {",
		new:   "			if given == name {",
		tests: []tests{{"internal/pgsettings", "^TestPin"}},
	},
	{
		name: "settings/an encoding that is not pinned", file: "internal/pgsettings/settings.go",
		old:   "	\"client_encoding\":             \"UTF8\",\n",
		new:   "",
		tests: []tests{{"internal/pgsettings", "^TestPin"}},
	},
	{
		name: "settings/another encoding of the server", file: "internal/pgsettings/settings.go",
		old:   "	{\"server_encoding\", always, is(\"UTF8\")",
		new:   "	{\"server_encoding\", inSimple, is(\"UTF8\")",
		tests: []tests{{"internal/pgsettings", "^TestNeeds$"}},
	},
	{
		name: "settings/needed where it does not matter", file: "internal/pgsettings/settings.go",
		old:   "	if n.where > at || ",
		new:   "	if ",
		tests: []tests{{"internal/pgsettings", "^TestNeeds$"}},
	},
	{
		name: "settings/what a pooler does not tell is refused", file: "internal/pgsettings/settings.go",
		old:   " || value == \"\" || n.fits(value)",
		new:   " || n.fits(value)",
		tests: []tests{{"internal/pgsettings", "^TestNeeds$"}},
	},
	{
		name: "settings/a schema in capitals", file: "internal/pgsettings/path.go",
		old:   "	return strings.ToLower(strings.TrimSpace(name)), rest",
		new:   "	return strings.TrimSpace(name), rest",
		tests: []tests{{"internal/pgsettings", "^TestFirstSchema$"}},
	},
}

var memoryMutants = []mutant{
	{
		name: "memory/past the expected sequence", file: "repo/memory/append.go",
		old:   "expected != nil && *expected != next",
		new:   "expected != nil && *expected > next",
		tests: []tests{{"repo/memory", conformance + "^Append$"}},
	},
	{
		name: "memory/stored twice under one id", file: "repo/memory/append.go",
		old:   "	if repeatable {",
		new:   "	if repeatable && len(messages) == 0 {",
		tests: []tests{{"repo/memory", conformance + "^Append$"}},
	},
	{
		name: "memory/past the budget", file: "repo/memory/sessions.go",
		old:   "budget != nil && add.Cost > *budget-usage.Cost",
		new:   "budget != nil && add.Cost > *budget",
		tests: []tests{{"repo/memory", conformance + "^Usage$"}},
	},
	{
		name: "memory/a usage that counts twice", file: "repo/memory/sessions.go",
		old:   "	if known := r.usage(add.ID); known != nil {",
		new:   "	if known := r.usage(add.ID); known != nil && known.id != add.ID {",
		tests: []tests{{"repo/memory", conformance + "^Usage$"}},
	},
	{
		name: "memory/a sum past its type", file: "repo/memory/sessions.go",
		old:   "		add.Cost > math.MaxInt64-usage.Cost {",
		new:   "		false {",
		tests: []tests{{"repo/memory", conformance + "^(Usage|Concurrency)$"}},
	},
	{
		name: "memory/a unit of work that leaves its ids", file: "repo/memory/unit.go",
		old:   "		delete(c.current.byID, m.ID)\n",
		new:   "		_ = m\n",
		tests: []tests{{"repo/memory", "^TestRollbackLeavesTheIndexClean$"}},
	},
	{
		name: "memory/an ended unit of work", file: "repo/memory/unit.go",
		old:   "	if u.ended {\n",
		new:   "	if u.ended && u.store == nil {\n",
		tests: []tests{{"repo/memory", "^TestUnitAfterItsEnd$"}},
	},
	{
		name: "memory/used within its own unit of work", file: "repo/memory/access.go",
		old:   "	if inside.Is(ctx, d.core) {",
		new:   "	if inside.Is(ctx, d) {",
		tests: []tests{{"repo/memory", conformance + "^Transactions$/^Inside$"}},
	},
	{
		name: "memory/brought back below a cancelled parent", file: "repo/memory/plan_move.go",
		old:   "	if r.plan.NeedsLiveParent(transition) {",
		new:   "	if r.plan.NeedsLiveParent(transition) && r.plan.Live() {",
		tests: []tests{{"repo/memory", conformance + "^(Lifecycle|PlanRaces)$"}},
	},
	{
		name: "memory/cancelled without its descendants", file: "repo/memory/plan_move.go",
		old:   "		p.cancelBelow(v, r.plan.ID, cause)\n",
		new:   "",
		tests: []tests{{"repo/memory", conformance + "^(Lifecycle|PlanRaces|Plans)$"}},
	},
	{
		name: "memory/a plan too deep", file: "repo/memory/plan_use.go",
		old:   "parent.Depth == repo.MaxPlanDepth",
		new:   "parent.Depth == repo.MaxPlanDepth+1",
		tests: []tests{{"repo/memory", conformance + "^(Use|Lifecycle|Plans)$"}},
	},
	{
		name: "memory/a child too many", file: "repo/memory/plan_use.go",
		old:   "len(children(v, parent.ID)) >= repo.MaxChildPlans",
		new:   "len(children(v, parent.ID)) > repo.MaxChildPlans",
		tests: []tests{{"repo/memory", "^TestChildLimit$"}},
	},
	{
		name: "memory/pruned, and recorded again", file: "repo/memory/audit.go",
		old:   "v.entries().get(key) != nil || v.sealed(key)",
		new:   "v.entries().get(key) != nil",
		tests: []tests{{"repo/memory", conformance + "^Keeping$"}},
	},
	{
		name: "memory/a hold that holds nothing", file: "repo/memory/trail.go",
		old:   "		case planHeld || sessionHeld:",
		new:   "		case planHeld && sessionHeld:",
		tests: []tests{{"repo/memory", conformance + "^Keeping$"}},
	},
	{
		name: "memory/a prune of prunes", file: "repo/memory/trail.go",
		old:   "e.Type == repo.EventAuditPruned || e.Type == repo.EventAuditGap",
		new:   "e.Type == repo.EventAuditGap",
		tests: []tests{{"repo/memory", conformance + "^Keeping$"}},
	},
	{
		name: "memory/two sealers", file: "repo/memory/trail_log.go",
		old:   "	log.sealing = true\n",
		new:   "",
		tests: []tests{{"repo/memory", conformance + "^Keeping$"}},
	},
	{
		name: "memory/a clock that steps back", file: "repo/memory/store.go",
		old:   "	if now.Before(c.last) {",
		new:   "	if now.IsZero() {",
		tests: []tests{{"repo/memory", "^TestClockNeverGoesBackwards$"}},
	},
}
