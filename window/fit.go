package window

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// history is what was read of a transcript: the messages that stay, and the newest others, ascending.
type history struct {
	messages []repo.Message
	stays    func(repo.Message) bool
	summary  *repo.Message
	// cut says that there are others before them, behind what the summary covers.
	cut bool
	// question is the user's last message, if it is one of those.
	question *repo.Message
	// found are the newest messages, and the ones that the store knows to stay. late are new results of calls that are
	// far behind, with these, and pins has what belongs to each pin.
	found, late []repo.Message
	pins        [][]repo.Message
}

// with returns the history with these pins.
func (h history) with(pins [][]repo.Message) history {
	stay, covered := map[int64]bool{}, h.covered()
	all := slices.Concat(h.found, h.late, slices.Concat(pins...))
	for _, m := range all[len(h.found):] {
		stay[m.Sequence] = true
	}
	h.messages = nil
	h.stays = func(m repo.Message) bool { return isInstruction(m) || stay[m.Sequence] }
	for _, m := range ascending(all) {
		if h.stays(m) || m.Sequence > covered {
			h.messages = append(h.messages, m)
		}
	}
	if h.question != nil && stay[h.question.Sequence] {
		h.question = nil
	}
	return h
}

// covered returns the last message that the summary covers.
func (h history) covered() int64 {
	if h.summary == nil {
		return none
	}
	to, _ := rules.Covered(h.summary)
	return to
}

// first returns the first messages that are there because they fit, if they may belong to a step that begins with
// others, which were not read.
func (h history) first() []repo.Message {
	at := slices.IndexFunc(h.messages, func(m repo.Message) bool { return !h.stays(m) })
	if !h.cut || at < 0 || at > 0 && h.messages[at-1].Sequence == h.messages[at].Follows &&
		h.messages[at-1].Kind != repo.KindSummary {
		return nil
	}
	for i, m := range h.messages[at:] {
		if m.Role != repo.RoleAssistant && m.Kind != repo.KindSummary || i > 0 && m.Follows != h.messages[at+i-1].Sequence {
			return h.messages[at : at+i]
		}
	}
	return h.messages[at:]
}

// What has to fit beside what always stays, and the sequence of no question.
const tooLarge, tooMany, none = "tokens of the newest messages", "newest messages", -1

// fixed is what does not fit, and what to do.
const fixed = "instructions, and what else always stays; a turn with After -1 begins the transcript again, with fewer"

// fit chooses what goes into the prompt.
func (o Options) fit(h history) (w Window, err error) {
	all := o.groups(h.messages)
	groups, dropped := o.whole(all, o.open(all), h.cut)
	for _, m := range h.messages {
		if m.Kind == repo.KindSummary {
			if _, is := rules.Covered(&m); !is {
				dropped = append(dropped, m)
			}
		}
	}
	others, room := o.keep(groups, h)
	if room.tokens < 0 {
		return Window{}, &repo.LimitExceededError{Kind: "tokens of " + fixed, Limit: o.Tokens}
	}
	if o.Messages > 0 && room.messages < 0 {
		return Window{}, &repo.LimitExceededError{Kind: "messages, " + fixed, Limit: int64(o.Messages)}
	}
	begin, question, err := o.choose(others, h, room.pinned, room.tokens, room.messages)
	if err != nil {
		return Window{}, err
	}
	w.Cut = h.cut || begin > 0
	if others = others[begin:]; len(others) > 0 {
		w.From = others[0].begin()
	}
	if h.question != nil {
		at, _ := slices.BinarySearchFunc(groups, h.question.Sequence,
			func(g group, sequence int64) int { return cmp.Compare(g.begin(), sequence) })
		groups = slices.Insert(groups, at, group{messages: []repo.Message{*h.question}})
	}
	groups = slices.DeleteFunc(groups, func(g group) bool {
		return !g.stays && g.begin() != question && (len(others) == 0 || g.begin() < w.From)
	})
	w.Messages = withSummary(groups, h)
	for _, m := range w.Messages {
		w.Tokens += o.estimate(m)
	}
	for _, m := range dropped {
		if !w.Cut || m.Sequence >= w.From {
			w.Dropped = append(w.Dropped, m)
		}
	}
	return w, nil
}

// room is the room beside what always stays. pinned is the user's last message that stays anyway, or none.
type room struct {
	tokens   int64
	messages int
	pinned   int64
}

// keep marks the groups that always stay, and returns the others, and the room for them.
func (o Options) keep(groups []group, h history) (others []group, left room) {
	left = room{o.Tokens, o.Messages, none}
	if h.summary != nil {
		left.tokens, left.messages = left.tokens-o.estimate(*h.summary), left.messages-1
	}
	spoke, last := o.spoke(groups)
	for i := range groups {
		isLate := last != none && i != last && groups[i].end() >= spoke && !isInstruction(groups[i].messages[0])
		groups[i].stays = isLate || slices.ContainsFunc(groups[i].messages, h.stays)
		if !groups[i].stays {
			others = append(others, groups[i])
			continue
		}
		if o.isUser(groups[i]) {
			left.pinned = groups[i].begin()
		}
		left.tokens, left.messages = left.tokens-o.tokensOf(groups[i]), left.messages-len(groups[i].messages)
	}
	return others, left
}

// withSummary returns the messages of groups, and the summary before the first group that it does not cover.
func withSummary(groups []group, h history) (messages []repo.Message) {
	covered := h.covered()
	for _, g := range groups {
		if h.summary != nil && g.begin() > covered {
			messages = append(messages, *h.summary)
			h.summary = nil
		}
		messages = append(messages, g.messages...)
	}
	if h.summary != nil {
		messages = append(messages, *h.summary)
	}
	return messages
}

// spoke returns the sequence of the last message that is no result: the groups that end there or later have what is
// new. It also returns the last group that has begun. Groups that end later have results which came late. None:
// there are only instructions.
func (o Options) spoke(groups []group) (spoke int64, last int) {
	spoke, last = none, none
	for i, g := range groups {
		if isInstruction(g.messages[0]) || o.isLoose(g) {
			continue
		}
		last = i
		for _, m := range g.messages {
			if o.rank(m) == 0 {
				spoke = max(spoke, m.Sequence)
			}
		}
	}
	return spoke, last
}

// choose returns where the groups begin that go into the prompt, and the sequence of the user's last message. It
// stays, since it is still to be answered: many calls and their results may follow it.
func (o Options) choose(others []group, h history, pinned, tokens int64,
	messages int,
) (begin int, question int64, err error) {
	begin, err = o.last(others, tokens, messages)
	switch {
	case err != nil || begin == 0 && !h.cut:
		return begin, none, err
	case len(others) == 0: // they were too large to be read
		return 0, none, &repo.LimitExceededError{Kind: tooLarge, Limit: o.Tokens}
	}
	begin = o.stable(others, begin)
	skipped := 0
	var asked group
	if h.question != nil {
		asked.messages = []repo.Message{*h.question}
	} else {
		for skipped = len(others); skipped > 0 && !o.isUser(others[skipped-1]); skipped-- {
		}
		if skipped == 0 || skipped > begin || others[skipped-1].begin() < pinned {
			return begin, none, nil
		}
		asked = others[skipped-1]
	}
	rest := others[skipped:]
	if begin, err = o.last(rest, tokens-o.tokensOf(asked), messages-len(asked.messages)); begin > 0 || h.question != nil {
		begin = o.stable(rest, begin)
	}
	return skipped + begin, asked.begin(), err
}

// last returns where the last groups begin that fit.
func (o Options) last(groups []group, tokens int64, messages int) (begin int, err error) {
	for begin = len(groups); begin > 0; begin-- {
		g := groups[begin-1]
		tokens, messages = tokens-o.tokensOf(g), messages-len(g.messages)
		if tokens >= 0 && (o.Messages == 0 || messages >= 0) {
			continue
		}
		if begin < len(groups) {
			break
		}
		if tokens < 0 {
			return begin, &repo.LimitExceededError{Kind: tooLarge, Limit: o.Tokens}
		}
		return begin, &repo.LimitExceededError{Kind: tooMany, Limit: int64(o.Messages)}
	}
	return begin, nil
}

func (o Options) tokensOf(g group) (sum int64) {
	for _, m := range g.messages {
		sum += o.estimate(m)
	}
	return sum
}

// open returns the group whose calls may be under way, the last one.
func (o Options) open(groups []group) (last int) {
	for last = len(groups) - 1; last >= 0 && o.isLoose(groups[last]); last-- {
	}
	return last
}

// whole leaves out what a provider refuses: see isLoose, and calls without a result, but of the group open. Results
// whose calls are missing because others were cut off are not reported.
func (o Options) whole(groups []group, open int, cut bool) (kept []group, dropped []repo.Message) {
	for i, g := range groups {
		switch {
		case o.isLoose(g):
			if !cut || isReasoning(g.messages[0]) {
				dropped = append(dropped, g.messages...)
			}
		case g.isUnderWay() && i != open:
			answered, without := o.answered(g)
			dropped = append(dropped, without...)
			if len(answered.messages) > 0 {
				kept = append(kept, answered)
			}
		default:
			kept = append(kept, g)
		}
	}
	return kept, dropped
}

// stable moves the begin of the rest of a history forwards to a place where it stays while messages are added: to the
// sequence that is divisible by the largest power of two, in the first half of what fits. It then begins with the
// user's message before that place, or with the one behind it, if there is one in the next quarter: some providers
// refuse others.
func (o Options) stable(groups []group, begin int) int {
	if begin >= len(groups) {
		return begin
	}
	first, last := groups[begin].begin(), groups[len(groups)-1].begin()
	place := roundest(first, first+(last-first)/2)
	at := begin
	for groups[at].begin() < place {
		at++
	}
	for before := at; before >= begin; before-- {
		if o.isUser(groups[before]) {
			return before
		}
	}
	for after := at; after < len(groups) && groups[after].begin() <= first+(last-first)*3/4; after++ {
		if o.isUser(groups[after]) {
			return after
		}
	}
	return at
}

func (o Options) isUser(g group) bool { return o.asks(g.messages[0]) }

// roundest returns the number from low to high that is divisible by the largest power of two.
func roundest(low, high int64) int64 {
	if low <= 0 || low >= high {
		return max(low, 0)
	}
	shift := bits.Len64(uint64((low-1)^high)) - 1
	return high >> shift << shift
}
