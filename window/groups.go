package window

import (
	"slices"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// group is what is kept or left out as a whole: one message, or calls that were made together, or a step, with their
// results.
type group struct {
	messages []repo.Message
	stays    bool
	// of has, by the sequences of messages with calls or results, which of them belong together: a message with calls has
	// its own sequence, or another one's if a result is of both.
	of map[int64]int64
	// without has how many results are missing of those calls that lack some.
	without map[int64]int
}

func (g group) begin() int64 { return g.messages[0].Sequence }

// end returns the sequence of the last message that was stored.
func (g group) end() (last int64) {
	for _, m := range g.messages {
		last = max(last, m.Sequence)
	}
	return last
}

func (g group) has(m repo.Message) bool {
	return slices.ContainsFunc(g.messages, func(of repo.Message) bool { return of.Sequence == m.Sequence })
}

// calls returns the ids of the calls that a message makes.
func (o Options) calls(m repo.Message) []string {
	if m.Role != repo.RoleAssistant {
		return nil
	}
	return o.ids(m)
}

// results returns the ids of the calls whose results a message has.
func (o Options) results(m repo.Message) []string {
	if m.Role == repo.RoleAssistant {
		return nil
	}
	return o.ids(m)
}

func (o Options) ids(m repo.Message) []string {
	if o.Calls != nil {
		if ids := o.Calls(m); len(ids) > 0 {
			return ids
		}
	}
	if m.CallID == "" || m.Role == repo.RoleAssistant && (o.Calls != nil || isReasoning(m)) {
		return nil
	}
	return []string{m.CallID}
}

func isReasoning(m repo.Message) bool {
	return m.Role == repo.RoleAssistant && m.Kind == repo.KindReasoning
}

func isAside(m repo.Message) bool { return m.Kind == repo.KindSummary || rules.IsRedaction(m) }

// isLoose reports whether a group has results without a call, or more than one for a call, or reasoning that nothing
// follows. An erased result names no call.
func (o Options) isLoose(g group) bool {
	first := g.messages[0]
	return first.Role == repo.RoleTool || len(o.results(first)) > 0 ||
		!slices.ContainsFunc(g.messages, func(m repo.Message) bool { return !isReasoning(m) })
}

// continues reports whether a message that directly follows another one belongs to what the assistant did in that.
func (o Options) continues(g group, before, m repo.Message) bool {
	switch {
	case m.Role != repo.RoleAssistant:
		return false
	case isReasoning(g.messages[0]):
		return !isReasoning(m) || isReasoning(before)
	}
	return len(o.calls(before)) > 0 && len(o.calls(m)) > 0
}

// groups joins calls and their results, and the messages of a step. Messages with calls of which each follows the one
// before made them together. The result of a call is the first one with its id, before another call has the same. It
// follows the calls of its group, also if it was stored after other messages; results are in the order in which they
// were stored. Summaries, and what tells of redacted messages, come at any time, and are in no group.
func (o Options) groups(messages []repo.Message) []group {
	var groups []group
	open := openCalls{}
	together := none // the group to which what the assistant does next may belong
	follows := map[int64]int64{}
	var before repo.Message
	for _, m := range messages {
		direct := m.Follows
		if of, is := follows[direct]; is {
			direct = of
		}
		if isAside(m) {
			follows[m.Sequence] = direct
			continue
		}
		at, calls, results := together, o.calls(m), o.results(m)
		if together = none; len(results) > 0 {
			if at = open.group(results); at != none {
				open.answer(&groups[at], at, m, results)
				continue
			}
		}
		isOpen := func(id string) bool { return open.has(id, at) }
		if at == none || direct != before.Sequence || !o.continues(groups[at], before, m) ||
			slices.ContainsFunc(calls, isOpen) {
			at = len(groups)
			groups = append(groups, group{})
		}
		g := &groups[at]
		if g.messages = append(g.messages, m); len(calls) > 0 && g.of == nil {
			g.of, g.without = map[int64]int64{}, map[int64]int{}
		}
		for _, id := range calls {
			if !isOpen(id) {
				open[id], g.of[m.Sequence] = openCall{at, m.Sequence}, m.Sequence
				g.without[m.Sequence]++
			}
		}
		if before = m; m.Role == repo.RoleAssistant {
			together = at
		}
	}
	for _, g := range groups {
		slices.SortStableFunc(g.messages, func(a, b repo.Message) int { return o.rank(a) - o.rank(b) })
	}
	return groups
}

// openCalls are the calls that have no result yet, by their ids.
type openCalls map[string]openCall

type openCall struct {
	group    int
	sequence int64
}

// has reports whether an id is of an open call of a group.
func (o openCalls) has(id string, group int) bool {
	c, is := o[id]
	return is && c.group == group
}

// group returns the group that has the calls of all results, or none.
func (o openCalls) group(results []string) int {
	c, is := o[results[0]]
	if !is || slices.ContainsFunc(results, func(id string) bool { return !o.has(id, c.group) }) {
		return none
	}
	return c.group
}

// answer adds a message with results to the group of their calls, which number at is.
func (o openCalls) answer(g *group, at int, m repo.Message, results []string) {
	g.messages = append(g.messages, m)
	for _, id := range results {
		if o.has(id, at) { // and not named twice
			g.answer(o[id].sequence, m.Sequence)
			delete(o, id)
		}
	}
}

// rank has the results of a group after the others.
func (o Options) rank(m repo.Message) int { return min(len(o.results(m)), 1) }

// answer notes a result of a call. Calls with one result belong together.
func (g group) answer(call, result int64) {
	root := g.of[call]
	if other, is := g.of[result]; is && other != root {
		for m, of := range g.of {
			if of == other {
				g.of[m] = root
			}
		}
		g.without[root] += g.without[other]
		delete(g.without, other)
	}
	g.of[result] = root
	if g.without[root]--; g.without[root] == 0 {
		delete(g.without, root)
	}
}

// isUnderWay reports whether a call has no result.
func (g group) isUnderWay() bool { return len(g.without) > 0 }

// answered returns the group without messages that have a call without a result, and these with the results that
// they have.
func (o Options) answered(g group) (kept group, dropped []repo.Message) {
	kept.of = g.of
	for _, m := range g.messages {
		if of, is := g.of[m.Sequence]; is && g.without[of] > 0 {
			dropped = append(dropped, m)
		} else {
			kept.messages = append(kept.messages, m)
		}
	}
	if len(kept.messages) == 0 || o.isLoose(kept) {
		return group{}, g.messages
	}
	return kept, dropped
}
