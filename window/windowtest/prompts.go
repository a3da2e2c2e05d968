package windowtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/window"
)

// Prompts makes conversations until so many prompts have been read, and checks each of them, and all that is given to be
// summarized: no provider refuses it, it fits, and has what always stays, the unanswered question, and the newest results.
// Nothing is summarized twice.
func Prompts(t *testing.T, store repo.Store, count int) {
	t.Helper()
	all, told := tally{count: count}, 0
	for seed := uint64(0); all.prompts < count && !t.Failed(); seed++ {
		c := newConversation(t, store, seed, &all)
		rounds, each := 20+c.r.IntN(60), 1
		if seed%256 == 200 {
			rounds, each = 600, 40 // more messages than one read has
		}
		for i := range rounds {
			c.goOn()
			if c.seldom = each > 1 && i%each > 0; !c.seldom {
				c.look()
			}
		}
		if _, err := store.Sessions().Delete(t.Context(), c.id); err != nil {
			t.Fatal(err)
		}
		if all.prompts/1_000_000 > told {
			told++
			t.Logf("%d prompts", all.prompts)
		}
	}
	t.Logf("%d prompts and %d summaries in %d conversations: %d cut, %d that cannot fit; the last messages that fit would be refused %d times",
		all.prompts, all.summaries, all.conversations, all.cut, all.tooLarge, all.naive)
	if !t.Failed() && (all.cut < count/20 || all.naive < count/100 || all.summaries < all.conversations/4) {
		t.Error("the conversations would not find a way that splits what belongs together")
	}
}

type tally struct {
	count int // how many prompts are to be read

	conversations, prompts, summaries, cut, tooLarge, naive int
}

// spoken is a message of a conversation.
type spoken struct {
	repo.Message
	unit    int      // of what belongs together
	calls   []string // that it makes
	results []string // that it has
}

// conversation is a session, and what is known of it without package window.
type conversation struct {
	*testing.T
	store repo.Store
	seed  uint64
	r     *rand.Rand
	all   *tally

	id    repo.ID
	known map[int64]spoken
	next  int64
	path  []spoken // the transcript
	unit  int

	// reuse: ids of calls come again. several: messages have several calls and results. thinks: the assistant begins all with
	// reasoning. compacts: how often of four times it is compacted.
	reuse, several, thinks bool
	compacts               int
	calls                  int
	late                   []string
	stuck                  bool // a call has no result, so that the user speaks next
	seldom                 bool // no prompts are read now
	paid                   map[repo.ID]bool
}

func newConversation(t *testing.T, store repo.Store, seed uint64, all *tally) *conversation {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	all.conversations++
	c := &conversation{
		T: t, store: store, seed: seed, r: r, all: all, id: newSession(t, store), known: map[int64]spoken{}, paid: map[repo.ID]bool{},
		reuse: r.IntN(3) == 0, several: r.IntN(2) == 0, thinks: r.IntN(3) == 0, compacts: r.IntN(5),
	}
	if !c.thinks && r.IntN(4) == 0 { // as an erasure leaves it
		c.append(nil, c.message(repo.RoleUser, "erased", ""), c.message(repo.RoleAssistant, "erased", ""), c.message(repo.RoleTool, "erased", ""), c.message(repo.RoleAssistant, "erased", ""))
	}
	return c
}

func (c *conversation) message(role repo.Role, content, payload string) repo.NewMessage {
	return repo.NewMessage{Role: role, Content: content, Payload: []byte(payload), Tokens: 1 + c.r.Int64N(40)}
}

// append appends a turn.
func (c *conversation) append(after *int64, messages ...repo.NewMessage) {
	c.Helper()
	if _, err := c.store.Sessions().AppendTurn(c.Context(), repo.Turn{SessionID: c.id, After: after, Messages: messages}); err != nil {
		c.Fatal(err)
	}
	head := int64(none)
	if len(c.path) > 0 {
		head = c.path[len(c.path)-1].Sequence
	}
	if after != nil {
		head = *after
		clear(c.paid)
	}
	c.sync(head)
}

const none = -1

// sync learns of the messages that were added, of which the first follows head.
func (c *conversation) sync(head int64) {
	c.Helper()
	read, err := c.store.Sessions().Read(c.Context(), repo.ReadSessions{IDs: []repo.ID{c.id}, From: c.next, First: 100, Branches: true})
	if err != nil {
		c.Fatal(err)
	}
	for _, m := range read.Sessions[0].Messages {
		s := spoken{Message: m}
		for field := range strings.FieldsSeq(string(m.Payload)) {
			switch name, id, _ := strings.Cut(field, ":"); name {
			case "call", "signed":
				s.calls = append(s.calls, id)
			case "result":
				s.results = append(s.results, id)
			}
		}
		before := c.known[m.Follows]
		for before.Kind == repo.KindSummary { // it may have come in between
			before = c.known[before.Follows]
		}
		if s.unit = before.unit; m.Role != repo.RoleAssistant || before.Role != repo.RoleAssistant || m.Kind == repo.KindReasoning && before.Kind != m.Kind {
			c.unit++
			s.unit = c.unit
		}
		head, c.next, c.known[m.Sequence] = m.Sequence, m.Sequence+1, s
	}
	c.path = nil
	for s, is := c.known[head]; is; s, is = c.known[s.Follows] {
		c.path = append(c.path, s)
	}
	slices.Reverse(c.path)
}

// goOn adds something.
func (c *conversation) goOn() {
	c.Helper()
	switch {
	case c.stuck && len(c.late) > 0 && c.r.IntN(2) == 0:
		c.append(nil, c.result(c.late[0]))
		c.late = c.late[1:]
		return
	case c.stuck:
		c.stuck = false
		c.ask()
		return
	}
	switch c.r.IntN(24) {
	case 0:
		c.append(nil, c.message([]repo.Role{repo.RoleSystem, repo.RoleDeveloper}[c.r.IntN(2)], "instruction", ""))
	case 1:
		c.append(nil, c.result("nobody"))
	case 2, 3:
		if len(c.path) > 0 && c.r.IntN(2) == 0 {
			c.rewind()
		}
	case 4, 5:
		if len(c.late) > 0 {
			c.append(nil, c.result(c.late[0]))
			c.late = c.late[1:]
		}
	case 6, 7, 8:
		c.append(nil, c.think(c.message(repo.RoleAssistant, "answer", ""))...)
	case 9, 10, 11, 12, 13:
		c.ask()
	default:
		c.step()
	}
}

func (c *conversation) ask() {
	c.Helper()
	switch c.r.IntN(8) {
	case 0:
		c.append(nil, c.message(repo.RoleUser, "", "picture"))
	case 1:
		m := c.message(repo.RoleUser, "", "")
		m.Kind = "note"
		c.append(nil, m)
	default:
		c.append(nil, c.message(repo.RoleUser, "question", ""))
	}
}

// think puts reasoning before what the assistant does.
func (c *conversation) think(messages ...repo.NewMessage) []repo.NewMessage {
	if !c.thinks && c.r.IntN(3) > 0 {
		return messages
	}
	var all []repo.NewMessage
	id := ""
	for range 1 + c.r.IntN(4)/3 {
		id = repo.NewID().String()
		m := c.message(repo.RoleAssistant, "", "reasoning:"+id)
		m.Kind = repo.KindReasoning
		all = append(all, m)
	}
	if !c.thinks && c.r.IntN(12) == 0 {
		return all // it was broken off
	}
	for _, m := range messages {
		m.Payload = append(m.Payload, " needs:"+id...)
		all = append(all, m)
	}
	return all
}

func (c *conversation) result(ids ...string) repo.NewMessage {
	m := c.message(repo.RoleTool, "result", "result:"+strings.Join(ids, " result:"))
	if m.CallID = ids[0]; c.several && c.r.IntN(2) == 0 {
		m.Role, m.CallID = repo.RoleUser, ""
	}
	return m
}

// step makes calls, and gets some results.
func (c *conversation) step() {
	c.Helper()
	var ids []string
	if c.reuse && c.r.IntN(2) == 0 {
		c.calls = 0
	}
	for range 1 + c.r.IntN(3) {
		c.calls++
		ids = append(ids, fmt.Sprint("call", c.calls))
	}
	calls := c.think(c.callsOf(ids)...)
	if c.r.IntN(4) == 0 { // one after the other
		for _, m := range calls {
			c.append(nil, m)
			c.look()
		}
	} else {
		c.append(nil, calls...)
		c.look()
	}
	if calls[len(calls)-1].Kind == repo.KindReasoning {
		return
	}
	c.answer(ids)
}

// callsOf returns messages that make the calls.
func (c *conversation) callsOf(ids []string) (messages []repo.NewMessage) {
	if c.r.IntN(4) == 0 {
		messages = append(messages, c.message(repo.RoleAssistant, "I look", ""))
	}
	for i, id := range ids {
		name := " call:"
		if i == 0 {
			name = "signed:"
		}
		if last := len(messages) - 1; c.several && i > 0 {
			messages[last].Payload = append(messages[last].Payload, name+id...)
			continue
		}
		m := c.message(repo.RoleAssistant, "", name+id)
		if m.CallID = id; c.several && c.r.IntN(2) == 0 {
			m.CallID, m.Kind = "", "calls"
		}
		messages = append(messages, m)
	}
	return messages
}

// answer gets the results of some of the calls, in any order.
func (c *conversation) answer(ids []string) {
	c.Helper()
	c.r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	var ready []string
	for _, id := range ids {
		switch c.r.IntN(10) {
		case 0:
			c.stuck = true
		case 1:
			c.stuck, c.late = true, append(c.late, id)
		default:
			ready = append(ready, id)
		}
	}
	if c.several && len(ready) > 0 && c.r.IntN(2) == 0 {
		c.append(nil, c.result(ready...))
		return
	}
	for _, id := range ready {
		for range 1 + c.r.IntN(6)/5 {
			c.append(nil, c.result(id))
		}
	}
}

// rewind edits an earlier message, or makes another branch the transcript.
func (c *conversation) rewind() {
	c.Helper()
	c.late, c.stuck = nil, false
	if c.r.IntN(2) == 0 {
		after := c.path[c.r.IntN(len(c.path))].Sequence
		c.append(&after, c.message(repo.RoleUser, "edited", ""))
		return
	}
	after := c.r.Int64N(c.next)
	c.append(&after)
	c.stuck = true
}

// namesOf is Options.Calls.
func namesOf(m repo.Message) (ids []string) {
	if len(m.Payload) < 6 {
		return nil
	}
	for field := range strings.FieldsSeq(string(m.Payload)) {
		if name, id, _ := strings.Cut(field, ":"); name == "call" || name == "signed" || name == "result" {
			ids = append(ids, id)
		}
	}
	return ids
}

func (c *conversation) options() window.Options {
	o := window.Options{Tokens: 1 + c.r.Int64N(1200)}
	if c.several {
		o.Calls = namesOf
	}
	if c.r.IntN(4) == 0 {
		o.Messages = 5 + c.r.IntN(60)
	}
	if c.r.IntN(6) == 0 {
		by := 1 + c.r.Int64N(40)
		o.Estimate = func(m repo.Message) int64 { return (window.Estimate(m)*by + 9) / 10 }
	}
	for range c.r.IntN(8) / 5 {
		pin := c.known[c.r.Int64N(c.next)]
		o.Pins = append(o.Pins, pin.ID)
	}
	return o
}

// look reads prompts, and compacts the session.
func (c *conversation) look() {
	c.Helper()
	if c.next == 0 || c.Failed() || c.seldom {
		return
	}
	if c.r.IntN(4) < c.compacts {
		o := c.options()
		o.Tokens, o.Messages, o.Pins = o.Tokens/2+200, 0, nil
		added, err := window.Compact(c.Context(), c.store, c.id, o, c.summarize)
		if err != nil && !errors.Is(err, repo.ErrLimit) {
			c.Fatalf("seed %d: %v", c.seed, err)
		}
		if added {
			c.sync(c.path[len(c.path)-1].Sequence)
		}
	}
	needs, reads := c.needs(), 6
	if c.all.count > 1_000_000 {
		reads = 30
	}
	for range reads {
		o := c.options()
		w, err := window.Read(c.Context(), c.store.Sessions(), c.id, o)
		if c.all.prompts++; err != nil {
			c.all.tooLarge++
			if tokens, messages := needs.sum(o); !errors.Is(err, repo.ErrLimit) || tokens <= o.Tokens && (o.Messages == 0 || messages <= o.Messages) {
				c.fail(w, "%v, but needs %d of %d tokens, %d of %d messages", err, tokens, o.Tokens, messages, o.Messages)
			}
			continue
		}
		c.check(w, o, needs)
	}
	head := c.r.Int64N(c.next)
	if c.r.IntN(8) == 0 {
		o := c.options()
		o.Head = &head
		w, err := window.Read(c.Context(), c.store.Sessions(), c.id, o)
		if c.all.prompts++; err != nil && !errors.Is(err, repo.ErrLimit) {
			c.fail(w, "up to %d: %v", head, err)
		}
		if why := refused(w.Messages, c.thinks); why != "" {
			c.fail(w, "up to %d: %s", head, why)
		}
	}
}

func (c *conversation) summarize(_ context.Context, messages []repo.Message) (string, error) {
	c.all.summaries++
	asked := append(slices.Clip(messages), repo.Message{Role: repo.RoleUser, Content: "Summarize this."})
	if why := refused(asked, false); why != "" {
		c.Errorf("seed %d, message %d: to summarize: %s\n%s", c.seed, c.next-1, why, show(messages))
	}
	for _, m := range messages {
		if m.Kind != repo.KindSummary && c.paid[m.ID] {
			c.Errorf("seed %d, message %d: %d is summarized twice", c.seed, c.next-1, m.Sequence)
		}
		c.paid[m.ID] = true
	}
	return "short", nil
}

// needs are the messages that a prompt has to have.
type needs struct {
	all      []spoken // at most: with what belongs to them
	question *spoken
	results  []spoken // that the assistant has not seen
	covered  int64    // the last message that a summary covers
}

func (n needs) sum(o window.Options) (tokens int64, messages int) {
	for _, s := range n.all {
		tokens += estimate(o, s.Message)
	}
	return tokens, len(n.all)
}

// answers returns the unit of each message, how many results each unit lacks, and the places of messages whose results are the first
// ones of their calls.
func (c *conversation) answers() (unitOf map[int64]int, missing map[int]int, fresh []int) {
	open := map[string]int{} // the units of calls without a result
	missing, unitOf = map[int]int{}, map[int64]int{}
	for i, s := range c.path {
		unitOf[s.Sequence] = s.unit
		for _, id := range s.calls {
			open[id] = s.unit
			missing[s.unit]++
		}
		isFresh := len(s.results) > 0
		for _, id := range s.results {
			if o, is := open[id]; !is || o != open[s.results[0]] {
				isFresh = false
			}
		}
		if isFresh {
			fresh = append(fresh, i)
			unitOf[s.Sequence] = open[s.results[0]]
			for _, id := range s.results {
				missing[unitOf[s.Sequence]]--
				delete(open, id)
			}
		}
	}
	return unitOf, missing, fresh
}

func (c *conversation) needs() (n needs) {
	unitOf, missing, fresh := c.answers()
	covered, summary, lastSaid := int64(none), none, none
	for i, s := range c.path {
		switch {
		case s.Kind == repo.KindSummary:
			summary = i
			if _, err := fmt.Sscanf(afterTo(s.Metadata), "%d", &covered); err != nil {
				c.Fatal(err)
			}
		case s.Role == repo.RoleAssistant:
			lastSaid = i
		case s.Role == repo.RoleUser && len(s.results) == 0:
			n.question = &c.path[i]
		}
	}
	if n.covered = covered; n.question != nil && n.question.Sequence <= covered {
		n.question = nil
	}
	units := map[int]bool{}
	for _, i := range fresh {
		if s := c.path[i]; i > lastSaid {
			units[unitOf[s.Sequence]] = true
			if isNewest := n.question == nil || s.Sequence > n.question.Sequence; isNewest && missing[unitOf[s.Sequence]] == 0 {
				n.results = append(n.results, s)
			}
		}
	}
	for newest, i := 0, len(c.path)-1; i >= 0 && newest < 4; i-- { // the last ones may be such as are left out
		if s := c.path[i]; s.Role != repo.RoleSystem && s.Role != repo.RoleDeveloper {
			units[unitOf[s.Sequence]] = true
			if alone := s.Kind == repo.KindReasoning || s.Role == repo.RoleTool || len(s.results) > 0 || len(s.calls) > 0; !alone {
				break
			}
		}
	}
	for i, s := range c.path {
		instruction := s.Role == repo.RoleSystem || s.Role == repo.RoleDeveloper
		isQuestion := n.question != nil && s.Sequence == n.question.Sequence
		if instruction && s.Kind != repo.KindSummary || i == summary || units[unitOf[s.Sequence]] || isQuestion {
			n.all = append(n.all, s)
		}
	}
	return n
}

func estimate(o window.Options, m repo.Message) int64 {
	if o.Estimate != nil {
		return o.Estimate(m)
	}
	return window.Estimate(m)
}

func afterTo(metadata []byte) string {
	_, after, _ := strings.Cut(string(metadata), `"to":`)
	return after
}

func show(messages []repo.Message) string {
	var lines []string
	for _, m := range messages {
		lines = append(lines, fmt.Sprintf("%d<%d %s %s %s %s%s", m.Follows, m.Sequence, m.Role, m.Kind, m.CallID, m.Payload, afterTo(m.Metadata)))
	}
	return strings.Join(lines, "\n")
}

// fail says what is wrong with a prompt.
func (c *conversation) fail(w window.Window, format string, args ...any) {
	c.Helper()
	var path []repo.Message
	for _, s := range c.path {
		path = append(path, s.Message)
	}
	c.Fatalf("seed %d, message %d: %s\n%s\ndropped\n%s\nof\n%s", c.seed, c.next-1, fmt.Sprintf(format, args...), show(w.Messages), show(w.Dropped), show(path))
}

// check checks a prompt.
func (c *conversation) check(w window.Window, o window.Options, n needs) {
	c.Helper()
	if why := refused(w.Messages, c.thinks); why != "" {
		c.fail(w, "%s", why)
	}
	var tokens int64
	there := make(map[int64]bool, len(w.Messages))
	for _, m := range w.Messages {
		if tokens += estimate(o, m); there[m.Sequence] {
			c.fail(w, "%d is there twice", m.Sequence)
		}
		there[m.Sequence] = true
	}
	if tokens != w.Tokens || tokens > o.Tokens || o.Messages > 0 && len(w.Messages) > o.Messages {
		c.fail(w, "%d of %d tokens, %d of %d messages", tokens, o.Tokens, len(w.Messages), o.Messages)
	}
	if n.question != nil && !there[n.question.Sequence] {
		c.fail(w, "the question, %d, is missing", n.question.Sequence)
	}
	for _, s := range n.results {
		if !there[s.Sequence] {
			c.fail(w, "the new result %d is missing", s.Sequence)
		}
	}
	for _, id := range o.Pins {
		isThere := slices.ContainsFunc(w.Messages, func(m repo.Message) bool { return m.ID == id })
		if isThere == slices.Contains(w.Unpinned, id) {
			c.fail(w, "the pin %s is there: %t, unpinned: %v", id, isThere, w.Unpinned)
		}
	}
	for _, s := range c.path {
		if isInstruction := s.Role == repo.RoleSystem || s.Role == repo.RoleDeveloper; isInstruction && s.Kind != repo.KindSummary && !there[s.Sequence] {
			c.fail(w, "the instruction %d is missing", s.Sequence)
		}
	}
	for _, m := range w.Dropped {
		if there[m.Sequence] || m.Role != repo.RoleTool && m.Kind != repo.KindReasoning && len(namesOf(m)) == 0 {
			c.fail(w, "%d was left out", m.Sequence)
		}
		there[m.Sequence] = true
	}
	for _, s := range c.path {
		if !w.Cut && s.Sequence > n.covered && s.Kind != repo.KindSummary && !there[s.Sequence] {
			c.fail(w, "nothing was cut, but %d is missing", s.Sequence)
		}
	}
	if w.Cut {
		c.all.cut++
	}
	if c.all.prompts%8 == 0 && refused(c.lastThatFit(o), c.thinks) != "" {
		c.all.naive += 8
	}
}

// lastThatFit is the naive way: the last messages that fit.
func (c *conversation) lastThatFit(o window.Options) (last []repo.Message) {
	tokens := o.Tokens
	for _, s := range slices.Backward(c.path) {
		if tokens -= estimate(o, s.Message); tokens < 0 {
			break
		}
		last = append(last, s.Message)
	}
	slices.Reverse(last)
	return last
}
