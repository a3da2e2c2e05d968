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

// pinned returns a message with the others of its group. Nil: it is not in the transcript. The session may have it, or
// some of these, on other branches, and other calls with the same id: the nearest ones belong together.
func (p *path) pinned(ctx context.Context, id repo.ID) ([]repo.Message, error) {
	m, err := p.sessions.Message(ctx, p.sessionID, id)
	if err != nil {
		return nil, err
	}
	begin, at, err := p.begin(ctx, m)
	if err != nil || begin == none {
		return nil, err
	}
	for page := int64(firstPage); ; page = maxMessages {
		found, err := p.between(ctx, begin, at+page)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		groups := p.groups(ascending(append(slices.Clip(found), m)))
		g := groups[slices.IndexFunc(groups, func(g group) bool { return g.has(m) })]
		if page == maxMessages || !g.isUnderWay() && !g.has(found[len(found)-1]) {
			between := func(of repo.Message) bool {
				return !g.has(of) && (of.Kind != repo.KindSummary || of.Sequence > g.end())
			}
			return append(slices.DeleteFunc(found, between), m), nil // with the summaries that are in between
		}
	}
}

// begin returns the sequence with which the group of a message begins, and the sequence of the message, or of its call
// if it is a result. None: the transcript does not have the message.
func (p *path) begin(ctx context.Context, m repo.Message) (begin, at int64, err error) {
	results := slices.Sorted(slices.Values(p.results(m))) // there may be many
	makes := func(c repo.Message) bool {
		return slices.ContainsFunc(p.calls(c), func(id string) bool { _, is := slices.BinarySearch(results, id); return is })
	}
	begin, at = none, m.Sequence
	var last repo.Message
	found, together := len(results) == 0, false
	for before, err := range p.back(ctx, m.Sequence) {
		switch {
		case err != nil || begin == none && before.ID != m.ID:
			return none, none, err
		case isAside(before):
			continue
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
	return begin, at, nil
}

// back yields the messages of the transcript from one with a sequence on backwards, 1,000 at most. It yields none if
// there is no such one.
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
		page, err := p.sessions.Read(ctx, repo.ReadSessions{
			IDs: []repo.ID{p.sessionID}, From: from,
			First: int(min(to-from+1, maxMessages)),
		})
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
