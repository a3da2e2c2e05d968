package window

import (
	"context"
	"iter"
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
)

// path finds messages of a session's transcript.
type path struct {
	Options

	sessions  Reader
	sessionID repo.ID
}

// firstPage is how many messages are read at first, where few are likely to be needed.
const firstPage = 32

// pinned returns a message with those of its group. Nil: it is not in the transcript. The session may have it, or some of these,
// on other branches, and other calls with the same id: the nearest ones belong together.
func (p *path) pinned(ctx context.Context, id repo.ID) (pinned []repo.Message, err error) {
	m, err := p.sessions.Message(ctx, p.sessionID, id)
	if err != nil {
		return nil, err
	}
	begin, at, err := p.begin(ctx, m)
	if err != nil || begin == none {
		return nil, err
	}
	var g group
	for _, page := range []int64{firstPage, maxMessages} {
		found, err := p.between(ctx, begin, at+page)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		groups, last := p.groups(ascending(append(slices.Clip(found), m))), found[len(found)-1]
		g = groups[slices.IndexFunc(groups, func(g group) bool { return g.has(m) })]
		if !g.isUnderWay() && !g.has(last) {
			break
		}
	}
	return p.answers(ctx, g)
}

// answers returns the messages of a group, and the results of its calls that are farther away.
func (p *path) answers(ctx context.Context, g group) (messages []repo.Message, err error) {
	messages = g.messages
	for _, c := range g.messages {
		if g.without[g.of[c.Sequence]] == 0 {
			continue
		}
		for _, id := range p.calls(c) {
			next, err := p.first(ctx, id, func(r repo.Message) bool { return r.Sequence > c.Sequence }, slices.All)
			if err != nil {
				return nil, err
			}
			if next != nil && len(p.results(*next)) > 0 {
				messages = append(slices.Clip(messages), *next)
			}
		}
	}
	return messages, nil
}

// begin returns the sequence with which the group of a message begins, and that of the message, or of the call if it is a result.
// None: the transcript does not have the message.
func (p *path) begin(ctx context.Context, m repo.Message) (begin, at int64, err error) {
	results := p.results(m)
	makes := func(c repo.Message) bool {
		return slices.ContainsFunc(p.calls(c), func(id string) bool { return slices.Contains(results, id) })
	}
	begin, at = none, m.Sequence
	var last repo.Message
	found, together := len(results) == 0, false
	for before, err := range p.back(ctx, m.Sequence) {
		switch {
		case err != nil || begin == none && before.ID != m.ID:
			return none, none, err
		case begin == none:
			if begin = at; !found {
				continue
			}
		case !found:
			if found = makes(before); !found {
				continue
			}
			begin, at = before.Sequence, before.Sequence
		case before.Role != repo.RoleAssistant || isReasoning(last) && !isReasoning(before):
			return begin, at, nil
		case isReasoning(before) || together && len(p.calls(before)) > 0:
			begin = before.Sequence
		}
		if last = before; before.Role != repo.RoleAssistant {
			return begin, at, nil
		}
		together = (together || begin == before.Sequence) && len(p.calls(before)) > 0
	}
	if begin == none || found {
		return begin, at, nil
	}
	isBefore := func(c repo.Message) bool { return c.Sequence < m.Sequence && makes(c) }
	call, err := p.first(ctx, results[0], isBefore, slices.Backward)
	if err != nil || call == nil {
		return begin, at, err
	}
	return p.begin(ctx, *call)
}

// first returns the first message with a call's id that is in the transcript, of those that are looked for.
func (p *path) first(ctx context.Context, call string, is func(repo.Message) bool,
	in func([]repo.Message) iter.Seq2[int, repo.Message],
) (*repo.Message, error) {
	all, err := p.sessions.MessagesOfCall(ctx, p.sessionID, call)
	for _, m := range in(all) {
		if !is(m) {
			continue
		}
		at, err := p.between(ctx, m.Sequence, m.Sequence)
		if err != nil || len(at) > 0 && at[0].ID == m.ID {
			return &m, err
		}
	}
	return nil, err
}

// back yields the messages of the transcript from one with a sequence on backwards, 1,000 at most. It yields none if there is
// no such one.
func (p *path) back(ctx context.Context, from int64) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		left := maxMessages
		for page := int64(firstPage); from >= 0; page *= 2 {
			messages, err := p.between(ctx, max(0, from-page+1), from)
			if err != nil {
				yield(repo.Message{}, err)
				return
			}
			if len(messages) == 0 || messages[len(messages)-1].Sequence != from {
				return
			}
			for _, m := range slices.Backward(messages) {
				if left--; left < 0 || !yield(m, nil) {
					return
				}
			}
			from = messages[0].Follows
		}
	}
}

// between returns the messages of the transcript from a sequence to another one.
func (p *path) between(ctx context.Context, from, to int64) (messages []repo.Message, err error) {
	for from <= to {
		page, err := p.sessions.Read(ctx, repo.ReadSessions{IDs: []repo.ID{p.sessionID}, From: from, First: int(min(to-from+1, maxMessages))})
		if err != nil || page.Sessions[0] == nil {
			return nil, err
		}
		found := page.Sessions[0]
		for _, m := range found.Messages {
			if m.Sequence <= to {
				messages = append(messages, m)
			}
		}
		if len(found.Messages) < maxMessages && !found.Cut {
			break
		}
		from = found.Messages[len(found.Messages)-1].Sequence + 1
	}
	return messages, nil
}
