package window

import (
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
)

// group is what is kept or left out as a whole: one message, or calls that were made together with all of
// their results.
type group struct {
	messages []repo.Message
	stays    bool
	// call: it has calls. Without one, a message with a call id is the result of a call that is not there.
	call bool
}

func (g group) begin() int64 { return g.messages[0].Sequence }

// end returns the sequence of the last message that was stored.
func (g group) end() (last int64) {
	for _, m := range g.messages {
		last = max(last, m.Sequence)
	}
	return last
}

func (g group) loose() bool { return !g.call && g.messages[0].CallID != "" }

// groupsOf joins calls and their results. A message with a call id is a call if it is an assistant's, and a result if it is
// not. Calls of which each follows the one before were made together. The results follow the calls of their group in the order
// in which they were stored, also those that were stored after other messages.
func groupsOf(messages []repo.Message) []group {
	var groups []group
	of := map[string]int{} // the group of a call
	together := -1         // the group to which a call that comes next belongs
	for i, m := range messages {
		at, is := of[m.CallID]
		switch {
		case isCall(m) && together >= 0 && m.Follows == messages[i-1].Sequence:
			groups[together].messages = append(groups[together].messages, m)
			of[m.CallID] = together
		case isCall(m):
			together = len(groups)
			groups, of[m.CallID] = append(groups, group{messages: []repo.Message{m}, call: true}), together
		case is && m.CallID != "":
			groups[at].messages = append(groups[at].messages, m)
			together = -1
		default:
			groups, together = append(groups, group{messages: []repo.Message{m}}), -1
		}
	}
	for _, g := range groups {
		slices.SortStableFunc(g.messages, func(a, b repo.Message) int { return resultsLast(a) - resultsLast(b) })
	}
	return groups
}

func isCall(m repo.Message) bool { return m.CallID != "" && m.Role == repo.RoleAssistant }

func resultsLast(m repo.Message) int {
	if isCall(m) {
		return 0
	}
	return 1
}

// isUnderWay reports whether a call has no result.
func (g group) isUnderWay() bool {
	_, without := g.answered()
	return len(without) > 0
}

// answered returns the group without the calls that have no result, and those.
func (g group) answered() (kept group, dropped []repo.Message) {
	results := map[string]bool{}
	for _, m := range g.messages {
		if !isCall(m) {
			results[m.CallID] = true
		}
	}
	kept.call = g.call
	for _, m := range g.messages {
		if isCall(m) && !results[m.CallID] {
			dropped = append(dropped, m)
		} else {
			kept.messages = append(kept.messages, m)
		}
	}
	return kept, dropped
}
