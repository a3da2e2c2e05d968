package window

import (
	"cmp"
	"context"
	"iter"
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
	// Pins are the ids of messages that always stay, at most 100. Those of a call stay with its results.
	Pins []repo.ID
	// Estimate returns how many tokens a message has, whatever was counted when it was appended. Nil: the function
	// [Estimate].
	Estimate func(repo.Message) int64
	// Calls returns the ids of the calls that a message makes, each of which one result has as its CallID. Without results
	// for all of them the message is left out. Nil: a message of the role assistant makes the call of its CallID, by which
	// a pin, or a result that comes late, also finds a call that is far behind.
	Calls func(repo.Message) []string
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
	// Dropped are the messages from From on that were left out: calls without a result that other messages follow, results
	// without a call, and those after the first one of a call.
	Dropped []repo.Message
}

// Reader is what Read needs of repo.Sessions.
type Reader interface {
	Read(ctx context.Context, read repo.ReadSessions) (repo.Snapshot, error)
	Message(ctx context.Context, sessionID, id repo.ID) (repo.Message, error)
	MessagesOfCall(ctx context.Context, sessionID repo.ID, callID string) ([]repo.Message, error)
}

// Read returns what goes into the next prompt of a session. It reads what it returns, and little more, however long the
// session is, in one round trip unless there are pins, the user's last message is far behind, or options.Estimate finds
// less than half of what the function Estimate does.
//
// Errors: InvalidError for the options; LimitExceededError if what always stays has more than options.Tokens, or leaves no room for the
// user's last message, if that is one of the last 1,000, and for the newest one, with its calls and results; NotFoundError if there is
// no such session, or a pin is not in its transcript.
func Read(ctx context.Context, sessions Reader, sessionID repo.ID, options Options) (Window, error) {
	if err := options.check(); err != nil {
		return Window{}, err
	}
	h, err := options.read(ctx, sessions, sessionID)
	if err != nil {
		return Window{}, err
	}
	return options.fit(h)
}

func (o *Options) check() error {
	o.Messages = cmp.Or(o.Messages, maxMessages)
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

func (o Options) estimate(m repo.Message) int64 {
	if o.Estimate != nil {
		return min(max(o.Estimate(m), 0), mostTokens)
	}
	return Estimate(m)
}

// newest reads the newest messages that fit, and those that stay with them. The store counts as the function Estimate
// does: where options.Estimate finds less, more is read.
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

// read reads the newest messages that fit, and those that stay.
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
	pins := map[repo.ID]bool{}
	all := found.Messages
	path := &path{o, sessions, sessionID, map[repo.ID]bool{}}
	for _, m := range all {
		path.has[m.ID] = true
	}
	stay := o.Pins
	if late := o.lateResult(all, covered); late != nil && (found.Cut || h.summary != nil) { // its call is far behind
		stay = append(slices.Clip(stay), late.ID)
	}
	for _, id := range stay {
		pinned, err := path.pinned(ctx, id)
		if err != nil {
			return h, err
		}
		for _, m := range pinned {
			pins[m.ID] = true
		}
		all = append(all, pinned...)
	}
	bySequence := func(a, b repo.Message) int { return cmp.Compare(a.Sequence, b.Sequence) }
	all = slices.SortedStableFunc(slices.Values(all), bySequence)
	all = slices.CompactFunc(all, func(a, b repo.Message) bool { return a.Sequence == b.Sequence })
	h.stays = func(m repo.Message) bool { return isInstruction(m) || pins[m.ID] }
	for _, m := range all {
		switch {
		case m.Kind == repo.KindSummary: // those that are older, too
		case h.stays(m) || m.Sequence > covered:
			h.messages = append(h.messages, m)
		}
	}
	if h.cut = found.Cut; h.cut && !slices.ContainsFunc(h.messages, func(m repo.Message) bool { return asks(m) && !h.stays(m) }) {
		before := int64(math.MaxInt64)
		if len(found.Messages) > 0 {
			before = found.Messages[len(found.Messages)-1].Sequence
		}
		h.question, err = o.question(ctx, sessions, sessionID, covered, before)
		if h.question != nil && h.stays(*h.question) {
			h.question = nil
		}
	}
	return h, err
}

// lateResult returns the newest message if it is the result of a call that is not among those that no summary covers.
func (o Options) lateResult(messages []repo.Message, covered int64) *repo.Message {
	isOld := func(m repo.Message) bool { return isInstruction(m) || m.Sequence <= covered }
	groups := o.groups(slices.DeleteFunc(slices.Clone(messages), isOld))
	if len(groups) == 0 || !groups[len(groups)-1].loose() {
		return nil
	}
	return &groups[len(groups)-1].messages[0]
}

// asks reports whether a message is a user's, and no result of a call.
func asks(m repo.Message) bool {
	return m.Role == repo.RoleUser && m.CallID == "" && m.Kind != repo.KindSummary
}

// question finds the user's last message behind what was read, if it is one of the last 1,000 messages, and not covered.
func (o Options) question(ctx context.Context, sessions Reader, sessionID repo.ID, covered, before int64) (*repo.Message, error) {
	last, err := sessions.Read(ctx, repo.ReadSessions{IDs: []repo.ID{sessionID}, Last: maxMessages, WithoutContent: true, WithoutPayload: true})
	if err != nil || last.Sessions[0] == nil {
		return nil, err
	}
	for _, m := range slices.Backward(last.Sessions[0].Messages) {
		if m.Sequence <= covered {
			break
		}
		if asks(m) && m.Sequence < before { // and not one that came since
			whole, err := sessions.Message(ctx, sessionID, m.ID)
			return &whole, err
		}
	}
	return nil, nil
}

// path finds messages of a session's transcript. has are those that are known to be in it, or not.
type path struct {
	Options

	sessions  Reader
	sessionID repo.ID
	has       map[repo.ID]bool
}

// pinned returns a message with those of its call. The session may have it, or some of these, on other branches, and
// other calls with the same id: the nearest ones belong together.
func (p *path) pinned(ctx context.Context, id repo.ID) (pinned []repo.Message, err error) {
	m, err := p.sessions.Message(ctx, p.sessionID, id)
	if err != nil {
		return nil, err
	}
	if is, err := p.contains(ctx, m); err != nil || !is {
		return nil, cmp.Or(err, error(&repo.NotFoundError{Kind: "message", ID: id}))
	}
	pinned = []repo.Message{m}
	call := &m
	if isResult(m) {
		makes := func(c repo.Message) bool { return c.Sequence < m.Sequence && slices.Contains(p.calls(c), m.CallID) }
		if call, err = p.first(ctx, m.CallID, makes, slices.Backward); err != nil || call == nil {
			return pinned, err
		}
		pinned = append(pinned, *call)
	}
	for _, id := range p.calls(*call) {
		isLater := func(r repo.Message) bool { return r.Sequence > call.Sequence }
		next, err := p.first(ctx, id, isLater, slices.All)
		if err != nil {
			return nil, err
		}
		if next != nil && isResult(*next) {
			pinned = append(pinned, *next)
		}
	}
	return pinned, nil
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
		if there, err := p.contains(ctx, m); err != nil || there {
			return &m, err
		}
	}
	return nil, err
}

func (p *path) contains(ctx context.Context, m repo.Message) (bool, error) {
	if is, known := p.has[m.ID]; known {
		return is, nil
	}
	at, err := p.sessions.Read(ctx, repo.ReadSessions{IDs: []repo.ID{p.sessionID}, From: m.Sequence, First: 1, WithoutContent: true, WithoutPayload: true})
	if err != nil {
		return false, err
	}
	found := at.Sessions[0]
	p.has[m.ID] = found != nil && len(found.Messages) > 0 && found.Messages[0].ID == m.ID
	return p.has[m.ID], nil
}

func isInstruction(m repo.Message) bool {
	return m.Role == repo.RoleSystem || m.Role == repo.RoleDeveloper
}

// cover is what the metadata of a summary says.
type cover struct {
	Summary struct {
		// From and To are the sequences of the first and the last message that it covers.
		From int64 `json:"from"`
		To   int64 `json:"to"`
		// Tokens is what these had.
		Tokens int64 `json:"tokens"`
	} `json:"summary"`
}
