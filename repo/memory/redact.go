package memory

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func (s sessions) Redact(ctx context.Context, id repo.ID, sequences []int64, by repo.Cause) error {
	sequences, err := rules.NormalizeRedaction(sequences, by)
	return exec(ctx, unless(err, s.write), func(t *tables) error {
		r, err := s.session(t, id)
		if err != nil {
			return err
		}
		of, err := rules.Redactions(id, sequences, s.redactable(t, r, sequences))
		if err != nil || len(of) == 0 {
			return err
		}
		for owner, some := range of {
			t.replaceMessages(owner, func(m *repo.Message) bool { return slices.Contains(some, m.Sequence) },
				rules.Redacted)
		}
		told := rules.RedactionNews(id, of)
		t.expireStreams(func(row *streamRow) bool { return told[row.Session] != nil })
		t.removeStreams(t.now(), math.MaxInt)
		for owner, some := range told {
			if t.sessions.get(owner) == nil {
				continue // it is deleted
			}
			if _, err := s.appendTurn(ctx, t, rules.RedactionTurn(owner, some)); err != nil {
				return err
			}
		}
		t.recordEvent(t.now(), repo.AuditEntry{
			Type: events.EntityDeleted, Namespace: r.Namespace, SessionID: id, Actor: by.Actor,
			Details: rules.RedactionDetails(told[id], by.Reason),
		})
		return nil
	})
}

// redactable returns those messages of a session that have the sequences.
func (s sessions) redactable(t *tables, r *sessionRow, sequences []int64) (found []rules.Redactable) {
	for _, sequence := range sequences {
		if m, _ := r.at(sequence); m != nil {
			namespace := t.namespaceOf(m.SessionID)
			found = append(found, rules.Redactable{
				Owner: m.SessionID, Sequence: sequence, Done: m.Kind == repo.KindRedacted,
				Held: t.heldMessages(m.SessionID), Foreign: namespace != "" && !rules.IsInView(s.options.view, namespace),
			})
		}
	}
	return found
}

// replaceMessages replaces those messages of a session that match, in its forks as well, and returns their number.
// Turns with some of them are answered whatever they say.
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
