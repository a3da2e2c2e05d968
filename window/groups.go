package window

import (
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
)

// group is what is kept or left out as a whole: one message, or calls that were made together with their results.
type group struct {
	messages []repo.Message
	stays    bool
	// of has the sequence of each call, and that of the call for a result, by their sequences. Nil: it has no calls.
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

// loose reports whether it is a result of no call, or one more of a call that has its result.
func (g group) loose() bool { return g.of == nil && isResult(g.messages[0]) }

// calls returns the ids of the calls that a message makes.
func (o Options) calls(m repo.Message) []string {
	switch {
	case o.Calls != nil:
		return o.Calls(m)
	case m.CallID != "" && m.Role == repo.RoleAssistant:
		return []string{m.CallID}
	}
	return nil
}

func isResult(m repo.Message) bool { return m.CallID != "" && m.Role != repo.RoleAssistant }

// groups joins calls and their results. Messages with calls of which each follows the one before made them together. The
// result of a call is the first one with its id, before another call has the same. It follows the calls of its group,
// also if it was stored after other messages; results are in the order in which they were stored.
func (o Options) groups(messages []repo.Message) []group {
	type call struct {
		group    int
		sequence int64
	}
	var groups []group
	open := map[string]call{} // the calls that have no result yet
	together := -1            // the group to which a call that comes next belongs
	for i, m := range messages {
		calls := o.calls(m)
		at, is := open[m.CallID]
		switch {
		case len(calls) > 0:
			taken := func(id string) bool {
				c, is := open[id]
				return is && c.group == together
			}
			if together < 0 || m.Follows != messages[i-1].Sequence || slices.ContainsFunc(calls, taken) {
				together = len(groups)
				groups = append(groups, group{of: map[int64]int64{}, without: map[int64]int{}})
			}
			g := &groups[together]
			g.messages, g.of[m.Sequence] = append(g.messages, m), m.Sequence
			for _, id := range calls {
				if c, is := open[id]; !is || c.sequence != m.Sequence { // and not named twice
					open[id] = call{together, m.Sequence}
					g.without[m.Sequence]++
				}
			}
		case is && isResult(m):
			g := &groups[at.group]
			g.messages, g.of[m.Sequence] = append(g.messages, m), at.sequence
			if g.without[at.sequence]--; g.without[at.sequence] == 0 {
				delete(g.without, at.sequence)
			}
			delete(open, m.CallID)
			together = -1
		default:
			groups, together = append(groups, group{messages: []repo.Message{m}}), -1
		}
	}
	for _, g := range groups {
		slices.SortStableFunc(g.messages, func(a, b repo.Message) int { return g.resultsLast(a) - g.resultsLast(b) })
	}
	return groups
}

func (g group) resultsLast(m repo.Message) int {
	if g.of[m.Sequence] == m.Sequence {
		return 0
	}
	return 1
}

// isUnderWay reports whether a call has no result.
func (g group) isUnderWay() bool { return len(g.without) > 0 }

// answered returns the group without the messages of whose calls one has no result, and those with the results that they
// have.
func (g group) answered() (kept group, dropped []repo.Message) {
	kept.of = g.of
	for _, m := range g.messages {
		if g.without[g.of[m.Sequence]] > 0 {
			dropped = append(dropped, m)
		} else {
			kept.messages = append(kept.messages, m)
		}
	}
	return kept, dropped
}
