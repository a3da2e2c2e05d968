package memory

import (
	"bytes"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// record is one session with its messages, and what was added to its usage.
//
// A stored message never changes, and messages only grows. That is what lets a
// unit of work share both messages' array and byID with the committed
// record: it writes behind the end that the committed record knows. So it is
// with usages.
type record struct {
	// session is the store's own copy. Its MessageCount is not kept up to
	// date: len(messages) is.
	session  repo.Session
	messages []*repo.Message
	// byID gives a message's sequence. An entry whose sequence is not below
	// len(messages) belongs to a unit of work and does not count here.
	byID map[repo.ID]int64
	// usages are in the order in which they were added; usageByID gives the
	// place of one, as byID does.
	usages    []addedUsage
	usageByID map[repo.ID]int
}

// addedUsage is what was added under an id.
type addedUsage struct {
	id      repo.ID
	amounts repo.Usage
}

// usage returns what was added under this id, or nil.
func (r *record) usage(id repo.ID) *addedUsage {
	place, found := r.usageByID[id]
	if !found || place >= len(r.usages) {
		return nil
	}
	return &r.usages[place]
}

// note keeps what was added.
func (r *record) note(add repo.NewUsage) {
	if r.usageByID == nil {
		r.usageByID = map[repo.ID]int{}
	}
	r.usageByID[add.ID] = len(r.usages)
	amounts := repo.Usage{InputTokens: add.InputTokens, OutputTokens: add.OutputTokens, Cost: add.Cost}
	r.usages = append(r.usages, addedUsage{add.ID, amounts})
}

// snapshot is the session as a caller gets it.
func (r *record) snapshot(v view) repo.Session {
	session := copySession(r.session)
	session.Plans = linkedPlans(v, session.ID)
	session.MessageCount = int64(len(r.messages))
	return session
}

// message returns the message with this id, or nil.
func (r *record) message(id repo.ID) *repo.Message {
	sequence, found := r.byID[id]
	if !found || sequence >= int64(len(r.messages)) {
		return nil
	}
	return r.messages[sequence]
}

// stored returns the stored messages with the ids of messages, with nil for
// those that are not; nil if there is none at all.
func (r *record) stored(messages []repo.Message) (known []*repo.Message) {
	for i := range messages {
		m := r.message(messages[i].ID)
		if m == nil {
			continue
		}
		if known == nil {
			known = make([]*repo.Message, len(messages))
		}
		known[i] = m
	}
	return known
}

// add appends messages, which get their sequences.
func (r *record) add(messages []repo.Message) {
	if r.byID == nil {
		r.byID = make(map[repo.ID]int64, len(messages))
	}
	for i := range messages {
		m := &messages[i]
		m.Sequence = int64(len(r.messages))
		r.messages = append(r.messages, m)
		r.byID[m.ID] = m.Sequence
	}
}

// touch moves UpdatedAt, which an import may have put ahead of the clock.
func (r *record) touch(now time.Time) {
	if now.After(r.session.UpdatedAt) {
		r.session.UpdatedAt = now
	}
}

// between returns messages from <= sequence < to, as far as there are. The slice
// is a copy, so that it may be read after the unlock.
func (r *record) between(from, to int64) []*repo.Message {
	count := int64(len(r.messages))
	from, to = min(from, count), min(to, count)
	return append([]*repo.Message(nil), r.messages[from:to]...)
}

func copySession(s repo.Session) repo.Session {
	s.Metadata = bytes.Clone(s.Metadata)
	if s.Budget != nil {
		budget := *s.Budget
		s.Budget = &budget
	}
	return s
}

func copyMessage(m repo.Message) repo.Message {
	m.Metadata = bytes.Clone(m.Metadata)
	m.Payload = bytes.Clone(m.Payload)
	return m
}

func copyMessages(messages []*repo.Message) []repo.Message {
	copies := make([]repo.Message, len(messages))
	for i, m := range messages {
		copies[i] = copyMessage(*m)
	}
	return copies
}
