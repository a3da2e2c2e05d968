package window

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
)

// A session is compacted when its prompt has more than four fifths of the budget, down to two fifths, so that it is
// done rarely.
const trigger, target = 0.8, 0.4

// Compact has summarize write a summary if the prompt of a session has more than 80 % of what options.Tokens leaves
// beside instructions and pins: of what comes after the last summary, with that one first, except for the newest
// messages, which have 40 % at most. What summarize is given can be a prompt itself. The summary is a message of its
// own (repo.KindSummary), and what it covers stays as it is. Compact returns whether it has added one. If there is more
// than fits into options.Tokens, it adds one after the other.
//
// The user's last message stays with all that came since, however much that is: a long run of calls is compacted when
// the user has spoken again. So does a call that has no result yet, with what follows it, as long as it is among what
// fits into the prompt.
//
// One caller at a time does that for a session, in whatever process: the others return false at once. It holds a lease
// of the kind "compact". Appends wait for nothing, but a turn with a Head has to be appended with [AppendTurn]. If the
// caller's process dies, the next call begins again where the last summary ends. If the session is rewound meanwhile,
// and a summary would cover messages that are left behind, or what is the user's last message then, none is added. One
// that is rewound later to before the summary does without it.
//
// Errors: as of Read and repo.HoldLease, also if no summary can help; what summarize returns; the cause of the end of
// the lease; LimitExceededError if the summary has more than 40 %, and InvalidError if it is empty or no text. After
// these two the lease is kept for an hour, so that not every turn pays for such a summary; release it to try again.
func Compact(ctx context.Context, store repo.Store, sessionID repo.ID, options Options,
	summarize func(ctx context.Context, messages []repo.Message) (summary string, err error),
) (added bool, err error) {
	if err := options.check(); err != nil || options.Head != nil {
		return false, cmp.Or(err, error(&repo.InvalidError{Field: "options.Head", Reason: "is set"}))
	}
	if _, due, err := options.due(ctx, store.Sessions(), sessionID); !due {
		return false, err
	}
	key := repo.LeaseKey{Kind: "compact", Name: sessionID.String()}
	holding, stop := context.WithCancel(ctx)
	defer stop()
	held, err := repo.HoldLease(holding, store, repo.NewLease{Key: key, Owner: repo.NewID().String()})
	if _, taken := errors.AsType[*repo.LeaseConflictError](err); taken {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	useless := false
	defer func() {
		if useless {
			stop()
			_, _ = store.Leases().Renew(context.WithoutCancel(ctx), held.Lease(), repo.MaxLeaseTTL)
		} else if e := held.Release(context.WithoutCancel(ctx)); err == nil && e != nil {
			err = e
		}
	}()
	for more := true; more; added = added || more {
		more, useless, err = options.compact(held.Context(), store.Sessions(), sessionID, summarize) //nolint:contextcheck // it is a child of ctx
	}
	return added, err
}

// due reports whether the prompt is above the trigger, perhaps with the error that it does not fit. It returns the pins
// that fit.
func (o Options) due(ctx context.Context, sessions Reader, sessionID repo.ID) (pins []repo.ID, due bool, err error) {
	w, err := Read(ctx, sessions, sessionID, o)
	if full, is := errors.AsType[*repo.LimitExceededError](err); is && (full.Kind == tooLarge || full.Kind == tooMany) {
		return nil, true, err
	}
	fixed := o.fixed(w.Messages)
	pins = slices.DeleteFunc(slices.Clone(o.Pins), func(id repo.ID) bool { return slices.Contains(w.Unpinned, id) })
	return pins, w.Cut || float64(w.Tokens-fixed) > trigger*float64(o.Tokens-fixed), err
}

// fixed returns how many tokens the instructions and the pins have.
func (o Options) fixed(messages []repo.Message) (tokens int64) {
	for _, m := range messages {
		if isInstruction(m) && m.Kind != repo.KindSummary || slices.Contains(o.Pins, m.ID) {
			tokens += o.estimate(m)
		}
	}
	return tokens
}

// compact adds one summary, of the oldest messages that none covers. It reports whether it has, and whether it has one
// that is useless.
func (o Options) compact(ctx context.Context, sessions repo.Sessions, sessionID repo.ID,
	summarize func(context.Context, []repo.Message) (string, error),
) (more, useless bool, err error) {
	pins, due, full := o.due(ctx, sessions, sessionID)
	if !due {
		return false, false, full
	}
	o.Pins = pins
	part, err := o.oldest(ctx, sessions, sessionID)
	if err != nil || len(part.messages) == 0 {
		return false, false, cmp.Or(err, full)
	}
	m := repo.Message{Role: repo.RoleSystem, Kind: repo.KindSummary} // rules.Covered reads the metadata
	m.Metadata = fmt.Appendf(nil, `{"summary":{"from":%d,"to":%d,"tokens":%d}}`, part.from, part.to, part.tokens)
	if o.estimate(m) > part.most { // none is paid for that cannot be added
		return false, false, part.tooLong()
	}
	m.Content, err = summarize(ctx, part.messages)
	switch {
	case err != nil:
		return false, false, err
	case m.Content == "":
		return false, true, &repo.InvalidError{Field: "summary", Reason: "is empty"}
	case o.estimate(m) > part.most:
		return false, true, part.tooLong()
	}
	summary := repo.NewMessage{ID: repo.NewID(), Role: m.Role, Kind: m.Kind, Content: m.Content, Metadata: m.Metadata}
	more, err = o.add(ctx, sessions, sessionID, part, summary)
	return more, errors.Is(err, repo.ErrInvalid) || errors.Is(err, repo.ErrLimit), err
}

// part is what a summary is to cover.
type part struct {
	// messages has the last summary first, if there is one, and nothing that a provider refuses.
	messages []repo.Message
	// from and to are the sequences of the first and the last message that it covers, which have so many tokens.
	from, to int64
	tokens   int64
	most     int64 // what the summary may have
	asked    int64 // the user's last message, or none
}

func (p part) tooLong() error {
	return &repo.LimitExceededError{Kind: "tokens of a summary", Limit: p.most}
}

// oldest returns the messages that come after the last summary, as many as fit into the budget, without what stays: see
// Compact.
func (o Options) oldest(ctx context.Context, sessions repo.Sessions, sessionID repo.ID) (p part, err error) {
	h, err := o.read(ctx, sessions, sessionID)
	if err != nil {
		return p, err
	}
	h = h.with(h.pins)
	o.Tokens -= o.fixed(h.messages)
	covered, room, full := h.covered(), o.Tokens, false
	if h.summary != nil {
		p.messages, room = append(p.messages, *h.summary), room-o.estimate(*h.summary)
	}
	p.asked = o.asked(h)
	fits := h.fits()
	if h.cut {
		snapshot, err := sessions.Read(ctx, repo.ReadSessions{
			IDs: []repo.ID{sessionID}, From: covered + 1,
			First: maxMessages,
		})
		if err != nil || snapshot.Sessions[0] == nil {
			return p, err
		}
		h.messages = snapshot.Sessions[0].Messages
		full = snapshot.Sessions[0].Cut || len(h.messages) == maxMessages
	}
	groups := o.groups(h.others(covered))
	if p.asked == none { // it may be the last one here
		p.asked = o.asked(h)
	}
	end := o.endOf(groups, full, room, func(g group) bool {
		return p.asked != none && g.end() >= p.asked || g.isUnderWay() && g.begin() >= fits
	})
	kept, _ := o.whole(groups[:end], none, true)
	if len(kept) == 0 {
		return part{}, nil
	}
	p.from, p.most = groups[0].begin(), int64(target*float64(o.Tokens))
	for _, g := range kept {
		p.messages = append(p.messages, g.messages...)
	}
	o.cover(&p, groups, end)
	return p, nil
}

// endOf returns how many of the groups come before what stays, and fit into the room. full: others follow, which were
// not read.
func (o Options) endOf(groups []group, full bool, room int64, stays func(group) bool) int {
	end, spoke := len(groups), int64(math.MaxInt64)
	if !full {
		end = o.tail(groups)
		spoke, _ = o.spoke(groups)
	} else if end > 1 && groups[end-1].messages[0].Role == repo.RoleAssistant { // it may go on on the next page
		end--
	}
	for i, g := range groups[:end] {
		if !o.isLoose(g) { // or it is not given to be summarized
			room -= o.tokensOf(g)
		}
		begun := i == len(groups)-1 && isReasoning(g.messages[len(g.messages)-1]) // a step
		if begun || g.end() >= spoke || stays(g) || room < 0 && i > 0 {
			return i
		}
	}
	return end
}

// cover notes what a part covers: so many groups.
func (o Options) cover(p *part, groups []group, end int) {
	next := int64(math.MaxInt64)
	if end < len(groups) {
		next = groups[end].begin()
	}
	for _, g := range groups[:end] {
		p.tokens += o.tokensOf(g)
		for _, m := range g.messages {
			if m.Sequence < next { // results may come late
				p.to = max(p.to, m.Sequence)
			}
		}
	}
}

// asked returns the sequence of the user's last message, or none.
func (o Options) asked(h history) int64 {
	if h.question != nil {
		return h.question.Sequence
	}
	for _, m := range slices.Backward(h.messages) {
		if o.asks(m) {
			return m.Sequence
		}
	}
	return none
}

// fits returns the sequence of the first message that is there because it fits.
func (h history) fits() int64 {
	for _, m := range h.messages {
		if !h.stays(m) {
			return m.Sequence
		}
	}
	return math.MaxInt64
}

// others are the messages that do not always stay, and that no summary covers.
func (h history) others(covered int64) (others []repo.Message) {
	for _, m := range h.messages {
		if m.Sequence > covered && (!isInstruction(m) || m.Kind == repo.KindSummary) {
			others = append(others, m)
		}
	}
	return others
}

// tail returns where the groups begin that have at most the target together: with a user's message, if there is one.
func (o Options) tail(groups []group) int {
	begin, _ := o.last(groups, int64(target*float64(o.Tokens)), int(target*float64(o.Messages)))
	for i := begin; i < len(groups); i++ {
		if o.isUser(groups[i]) {
			return i
		}
	}
	return begin
}

// add appends the summary, unless what it covers, or the summary before it, is not in the transcript any more, or it
// covers what is the user's last message now. It was paid for, so that this is tried three times.
func (o Options) add(ctx context.Context, sessions repo.Sessions, sessionID repo.ID, p part,
	summary repo.NewMessage,
) (bool, error) {
	for try := 1; ; {
		last, err := sessions.Read(ctx, repo.ReadSessions{IDs: []repo.ID{sessionID}, Last: 1})
		if err != nil || last.Sessions[0] == nil || len(last.Sessions[0].Messages) == 0 {
			return false, err
		}
		for _, sequence := range []int64{p.messages[0].Sequence, p.to, p.asked} {
			there, err := (&path{o, sessions, sessionID}).between(ctx, max(0, sequence), sequence)
			gone := len(there) == 0 && sequence != none
			if gone && err == nil && sequence == p.asked {
				var h history
				h, err = o.read(ctx, sessions, sessionID)
				gone = o.asked(h.with(nil)) <= p.to
			}
			if err != nil || gone {
				return false, err
			}
		}
		head := last.Sessions[0].Messages[0].Sequence
		appended, err := sessions.AppendTurn(ctx, repo.Turn{
			SessionID: sessionID, Messages: []repo.NewMessage{summary},
			Head: &head,
		})
		_, moved := errors.AsType[*repo.SequenceConflictError](err)
		again := errors.Is(err, repo.ErrUnknownOutcome) || errors.Is(err, repo.ErrUnavailable) ||
			errors.Is(err, repo.ErrContention)
		if err == nil && o.estimate(appended.Messages[0]) > p.most { // as the store has counted: no prompt may fit beside it
			back := repo.Turn{SessionID: sessionID, After: &head, Head: &appended.Messages[0].Sequence}
			if _, failed := sessions.AppendTurn(ctx, back); failed == nil {
				return false, p.tooLong()
			}
		}
		if !moved && (!again || try == 3) {
			return err == nil, err
		}
		if again {
			try++
		}
	}
}
