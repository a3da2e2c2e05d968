package memory

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func (s sessions) Redact(ctx context.Context, id repo.ID, sequences []int64, by repo.Cause) error {
	sequences, err := rules.NormalizeRedaction(sequences, by)
	_, err = runOn(ctx, unless(err, s.write), s.session, id, func(t *tables, r *sessionRow) (none struct{}, err error) {
		of, err := rules.Redactions(id, sequences, s.redactable(t, r, sequences))
		if err != nil || len(of) == 0 {
			return none, err
		}
		var all []int64
		for owner, some := range of {
			t.replaceMessages(owner, func(m *repo.Message) bool { return slices.Contains(some, m.Sequence) },
				rules.Redacted)
			all = append(all, some...)
		}
		slices.Sort(all)
		told := maps.Clone(of)
		told[id] = all
		t.expireStreams(func(row *streamRow) bool { return told[row.Session] != nil })
		t.removeStreams(t.now(), math.MaxInt)
		for owner, some := range told {
			if t.sessions.get(owner) == nil {
				continue
			}
			if _, err := (sessions{s.handle}).appendTurn(ctx, t, rules.RedactionTurn(owner, some)); err != nil {
				return none, err
			}
		}
		t.recordEvent(t.now(), repo.AuditEntry{
			Type: events.EntityDeleted, Namespace: r.Namespace, SessionID: id, Actor: by.Actor,
			Details: rules.RedactionDetails(all, by.Reason),
		})
		return none, nil
	})
	return err
}

// redactable returns those messages of a session that have the sequences.
func (s sessions) redactable(t *tables, r *sessionRow, sequences []int64) (found []rules.Redactable) {
	held, foreign := map[repo.ID]bool{}, map[repo.ID]bool{}
	for _, sequence := range sequences {
		m, _ := r.at(sequence)
		if m == nil {
			continue
		}
		owner := m.SessionID
		if _, known := held[owner]; !known {
			held[owner], foreign[owner] = t.heldMessages(owner), !s.reaches(t, owner)
		}
		found = append(found, rules.Redactable{
			Owner: owner, Sequence: sequence, Done: m.Kind == repo.KindRedacted, Held: held[owner],
			Foreign: foreign[owner],
		})
	}
	return found
}

// reaches reports whether a session's messages are the view's: those of a deleted one are if all forks are that have
// some of them.
func (s sessions) reaches(t *tables, owner repo.ID) bool {
	if r := t.sessions.get(owner); r != nil {
		return rules.IsInView(s.options.view, r.Namespace)
	}
	return len(t.sessions.where(func(r *sessionRow) bool {
		return r.hasOf(owner) && !rules.IsInView(s.options.view, r.Namespace)
	})) == 0
}

// replaceMessages replaces those messages of a session that match, in its forks as well, and returns their number. Turns
// that have some of them are answered whatever they say from now on.
func (t *tables) replaceMessages(owner repo.ID, matches func(*repo.Message) bool,
	by func(repo.Message) repo.Message,
) int64 {
	replaced := map[*repo.Message]*repo.Message{}
	in := func(messages []*repo.Message) []*repo.Message {
		messages = slices.Clone(messages)
		for i, m := range messages {
			if replaced[m] == nil && m.SessionID == owner && matches(m) {
				replaced[m] = new(by(*m))
			}
			messages[i] = cmp.Or(replaced[m], m)
		}
		return messages
	}
	for id, r := range t.sessions.all() {
		if id != owner && !r.hasOf(owner) {
			continue
		}
		r = t.editSession(id)
		r.messages, r.inherited = in(r.messages), in(r.inherited)
		if id != owner {
			continue
		}
		for _, m := range replaced {
			r.byID.put(m.ID, m)
		}
		for id, turn := range r.turns.all() {
			if slices.ContainsFunc(turn.messages(r), func(m *repo.Message) bool { return m.Kind == repo.KindRedacted }) {
				changed := *turn
				changed.digest = rules.RedactedDigest[:]
				r.turns.put(id, &changed)
			}
		}
	}
	return int64(len(replaced))
}
