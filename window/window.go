package window

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// Options say what a prompt may have.
type Options struct {
	// Tokens is how many tokens the messages have together at most, by Estimate. At least 1.
	Tokens int64
	// Messages is how many messages there are at most. Zero: 1,000, which is the most.
	Messages int
	// Pins are the ids of messages that stay, at most 100, with what belongs to them: see Window.Unpinned.
	Pins []repo.ID
	// Estimate returns how many tokens a message has, whatever was counted when it was appended. Nil: the function
	// [Estimate].
	Estimate func(repo.Message) int64
	// Calls returns the ids of the calls that a message of the assistant makes, or whose results another one has; of these
	// nothing stands for the CallID. Without results for all of them the message is left out. A pin, or a result that
	// comes late, finds a call that is one of the 1,000 messages before the result. Nil: the CallID.
	Calls func(repo.Message) []string
	// Head is the sequence of the message with which the prompt ends, on whatever branch; not for Compact. Read then reads
	// the whole session. Nil: the last one of the transcript.
	Head *int64
}

const maxMessages, maxPins = 1000, 100

// mostTokens is what Estimate returns of a message at most, so that sums do not overflow. For more than enough tokens a
// store reads no more messages: their bytes end it.
const mostTokens, enough = math.MaxInt64 / 10_000, limits.MaxReadBytes

// Window is what goes into a prompt.
type Window struct {
	// Messages are in the order of the transcript, with these exceptions: the summary, whose Kind is
	// repo.KindSummary, is where what it covers was, and the results of a call follow the call.
	Messages []repo.Message
	// Tokens is what the messages have together.
	Tokens int64
	// From is the sequence of the first message that stays because it is new enough, and Cut reports that others before
	// it, which no summary covers, were left out.
	From int64
	Cut  bool
	// Dropped are the messages, from From on if Cut, that were left out: calls without a result that other messages
	// follow, results without a call, and those after the first one of a call, reasoning that nothing follows, and
	// summaries that do not say what they cover.
	Dropped []repo.Message
	// Unpinned are the pins that are not there: the transcript does not have them, or they do not fit beside what has to
	// be, and the pins before them.
	Unpinned []repo.ID
}

// Reader is what Read needs of repo.Sessions.
type Reader interface {
	Read(ctx context.Context, read repo.ReadSessions) (repo.Snapshot, error)
	Message(ctx context.Context, sessionID, id repo.ID) (repo.Message, error)
}

// Read returns what goes into the next prompt of a session. It reads what it returns, and little more, however long the
// session is, in one round trip unless there are pins, the user's last message is far behind, a prompt that is cut
// begins with the assistant, or options.Estimate finds less than half of what the function Estimate does.
//
// Errors: InvalidError for the options; LimitExceededError if the instructions have more than options.Tokens, of which
// docs/history.md has the way out, or leave no room for the user's last message, if that is one of the last 1,000, and
// for the newest one, with what belongs to it; NotFoundError if there is no such session.
func Read(ctx context.Context, sessions Reader, sessionID repo.ID, options Options) (Window, error) {
	if err := options.check(); err != nil {
		return Window{}, err
	}
	if options.Head != nil {
		branch, err := readBranch(ctx, sessions, sessionID, *options.Head)
		if err != nil {
			return Window{}, err
		}
		sessions = branch
	}
	h, err := options.read(ctx, sessions, sessionID)
	if err != nil {
		return Window{}, err
	}
	p := &path{options, sessions, sessionID}
	w, err := p.window(ctx, h.with(h.pins))
	if errors.Is(err, repo.ErrLimit) && len(h.pins) > 0 {
		if w, err = p.window(ctx, h.with(nil)); err != nil {
			return Window{}, err
		}
		var kept [][]repo.Message
		for _, pin := range h.pins {
			with := append(slices.Clip(kept), pin)
			if more, err := p.window(ctx, h.with(with)); err == nil {
				w, kept = more, with
			}
		}
	}
	for _, id := range options.Pins {
		if err == nil && !slices.ContainsFunc(w.Messages, func(m repo.Message) bool { return m.ID == id }) {
			w.Unpinned = append(w.Unpinned, id)
		}
	}
	return w, err
}

// window chooses what goes into the prompt. If that begins with what the assistant did, and the step of this began
// before what was read, the begin is read, too.
func (p *path) window(ctx context.Context, h history) (Window, error) {
	w, err := p.fit(h)
	first := h.first()
	if err != nil || !slices.ContainsFunc(first, func(m repo.Message) bool { return group{messages: w.Messages}.has(m) }) {
		return w, err
	}
	begin, _, err := p.begin(ctx, first[0])
	if err != nil {
		return Window{}, err
	}
	if begin == none || begin == first[0].Sequence {
		return w, nil
	}
	before, err := p.between(ctx, begin, first[0].Sequence-1)
	if err != nil {
		return Window{}, err
	}
	h.messages = ascending(append(before, h.messages...))
	return p.fit(h)
}

func (o *Options) check() error {
	o.Messages = cmp.Or(o.Messages, maxMessages)
	o.Estimate, o.Calls = once(o.Estimate), once(o.Calls)
	switch {
	case o.Tokens < 1:
		return &repo.InvalidError{Field: "options.Tokens", Reason: "is below 1"}
	case o.Messages < 0 || o.Messages > maxMessages:
		return &repo.InvalidError{Field: "options.Messages", Reason: "is not between 1 and 1,000"}
	case len(o.Pins) > maxPins:
		return &repo.InvalidError{Field: "options.Pins", Reason: "has more than 100"}
	}
	return nil
}

// once asks once of each stored message.
func once[T any](ask func(repo.Message) T) func(repo.Message) T {
	if ask == nil {
		return nil
	}
	known := map[repo.ID]T{}
	return func(m repo.Message) T {
		answer, is := known[m.ID]
		if !is || m.ID.IsZero() {
			answer = ask(m)
			known[m.ID] = answer
		}
		return answer
	}
}

func (o Options) estimate(m repo.Message) int64 {
	if o.Estimate != nil {
		return min(max(o.Estimate(m), 0), mostTokens)
	}
	return Estimate(m)
}

// newest reads the newest messages that fit, and the ones that stay with them. The store counts as the function
// Estimate does: where options.Estimate finds less, more is read.
func (o Options) newest(ctx context.Context, sessions Reader, sessionID repo.ID) (*repo.SessionSnapshot, error) {
	read := repo.ReadSessions{IDs: []repo.ID{sessionID}, Last: o.Messages, Tokens: o.Tokens}
	if o.Estimate != nil {
		read.Tokens = 2 * min(o.Tokens, mostTokens) // most models' tokens are fewer, and one round trip is enough
	}
	for {
		snapshot, err := sessions.Read(ctx, read)
		if err != nil {
			return nil, err
		}
		found := snapshot.Sessions[0]
		if found == nil {
			return nil, &repo.NotFoundError{Kind: "session", ID: sessionID}
		}
		tokens, messages := o.Tokens, o.Messages
		for _, m := range found.Messages {
			if !isInstruction(m) {
				tokens, messages = tokens-o.estimate(m), messages-1
			}
		}
		if o.Estimate == nil || !found.Cut || tokens <= 0 || messages <= 0 || read.Tokens > enough {
			return found, nil
		}
		read.Tokens *= 64
	}
}

// read reads the newest messages that fit, and the ones that stay.
func (o Options) read(ctx context.Context, sessions Reader, sessionID repo.ID) (h history, err error) {
	found, err := o.newest(ctx, sessions, sessionID)
	if err != nil {
		return h, err
	}
	covered := int64(none)
	for i := range found.Messages {
		if m := &found.Messages[i]; m.Kind == repo.KindSummary {
			if to, is := rules.Covered(m); is && to > covered {
				h.summary, covered = m, to
			}
		}
	}
	path := &path{o, sessions, sessionID}
	for _, id := range o.Pins {
		pinned, err := path.pinned(ctx, id)
		if err != nil && !errors.Is(err, repo.ErrNotFound) {
			return h, err
		}
		h.pins = append(h.pins, pinned)
	}
	h.found, h.cut = found.Messages, found.Cut
	if h.cut || h.summary != nil {
		late, newest := o.late(h.found, covered)
		for i, m := range late {
			if (group{messages: h.late}).has(m) {
				continue
			}
			with, err := path.pinned(ctx, m.ID)
			if err != nil {
				return h, err
			}
			if i < newest {
				h.late = append(h.late, with...)
			} else { // as long as they fit
				h.pins = append(h.pins, with)
			}
		}
	}
	if h.cut && !slices.ContainsFunc(h.found, o.asks) {
		h.question, err = path.question(ctx, covered, h.found)
	}
	return h, err
}

// ascending sorts messages, and leaves out repetitions.
func ascending(messages []repo.Message) []repo.Message {
	sorted := slices.SortedStableFunc(slices.Values(messages), func(a, b repo.Message) int {
		return cmp.Compare(a.Sequence,
			b.Sequence)
	})
	return slices.CompactFunc(sorted, func(a, b repo.Message) bool { return a.Sequence == b.Sequence })
}

// late returns the results that came since the assistant has last done anything, of calls that are not among the
// messages that no summary covers, the newest first, 16 at most, and how many of them nothing else follows.
func (o Options) late(messages []repo.Message, covered int64) (late []repo.Message, newest int) {
	isOld := func(m repo.Message) bool { return isInstruction(m) || m.Sequence <= covered }
	groups := o.groups(slices.DeleteFunc(slices.Clone(messages), isOld))
	for i := len(groups) - 1; i >= 0 && len(late) < 16 && groups[i].messages[0].Role != repo.RoleAssistant; i-- {
		if !o.isLoose(groups[i]) {
			continue
		}
		if newest == len(groups)-1-i {
			newest++
		}
		late = append(late, groups[i].messages[0])
	}
	return late, newest
}

// asks reports whether a message is a user's, and no result of a call.
func (o Options) asks(m repo.Message) bool {
	return m.Role == repo.RoleUser && m.Kind != repo.KindSummary && len(o.results(m)) == 0
}

// question finds the user's last message before the last one of what was read, if it is one of the last 1,000 messages,
// and not covered.
func (p *path) question(ctx context.Context, covered int64, read []repo.Message) (*repo.Message, error) {
	last, err := p.sessions.Read(ctx, repo.ReadSessions{
		IDs: []repo.ID{p.sessionID}, Last: maxMessages,
		WithoutContent: true, WithoutPayload: true,
	})
	if err != nil || last.Sessions[0] == nil {
		return nil, err
	}
	from, size := int64(math.MaxInt64), int64(1) // few at first: often the first one is it
	if len(read) > 0 {
		from = read[len(read)-1].Sequence // what came since is not looked at
	}
	for _, m := range slices.Backward(last.Sessions[0].Messages) {
		if m.Role != repo.RoleUser || m.CallID != "" || m.Sequence >= from {
			continue
		}
		from, size = max(covered+1, m.Sequence-size+1), min(2*size, 128)
		read, err := p.between(ctx, from, m.Sequence)
		if slices.Reverse(read); err != nil {
			return nil, err
		}
		if at := slices.IndexFunc(read, p.asks); at >= 0 {
			return &read[at], nil
		}
	}
	return nil, nil
}

func isInstruction(m repo.Message) bool {
	return m.Role == repo.RoleSystem || m.Role == repo.RoleDeveloper
}
