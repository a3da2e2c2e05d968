package memory

import (
	"context"
	"slices"
	"sort"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// Read takes everything under one lock, and copies the messages after it.
func (s sessions) Read(ctx context.Context, read repo.ReadSessions) (repo.Snapshot, error) {
	read, err := rules.NormalizeRead(read)
	if err != nil {
		return repo.Snapshot{}, err
	}
	snapshot := repo.Snapshot{Sessions: make([]*repo.SessionSnapshot, len(read.IDs))}
	messages := make([][]*repo.Message, len(read.IDs))
	err = exec(ctx, s.read, func(t *tables) (err error) {
		var scopes []repo.Scope
		for i, id := range read.IDs {
			r, missing := s.session(t, id)
			if missing != nil {
				continue
			}
			snapshot.Sessions[i] = &repo.SessionSnapshot{Session: s.snapshot(t, r)}
			messages[i], snapshot.Sessions[i].Cut = selected(r, read)
			if read.State {
				scopes = append(scopes, repo.Scope{SessionID: id})
			}
		}
		for _, name := range read.Scopes {
			scopes = append(scopes, repo.Scope{Name: name})
		}
		snapshot.Scopes, err = s.readScopes(t, scopes)
		return err
	})
	if err != nil {
		return repo.Snapshot{}, err
	}
	size := 0
	for i, entry := range snapshot.Sessions {
		if entry == nil {
			continue
		}
		if read.State {
			entry.State, snapshot.Scopes = snapshot.Scopes[0], snapshot.Scopes[1:]
		}
		selected := each(messages[i], func(m *repo.Message) *repo.Message { return without(read, *m) })
		var taken int
		taken, size = rules.CutRead(read, len(selected), size, func(i int) int {
			return len(selected[i].Content) + len(selected[i].Metadata) + len(selected[i].Payload)
		})
		entry.Messages = copiesOf(entry.Session.ID, rules.Taken(read, selected, taken))
		entry.Cut = entry.Cut || taken < len(selected)
	}
	return snapshot, nil
}

// selected returns the messages of a session that are to be read, and whether there are others before the ones that
// fit into read.Tokens.
func selected(r *sessionRow, read repo.ReadSessions) (messages []*repo.Message, cut bool) {
	messages = r.transcript()
	if read.Tokens > 0 {
		return rules.Prompt(messages, read)
	}
	if read.Branches {
		messages = r.all()
	}
	messages = from(messages, read.From)
	if read.Last > 0 {
		messages = messages[max(0, len(messages)-read.Last):]
	}
	if !read.Since.IsZero() {
		messages = messages[sort.Search(len(messages),
			func(i int) bool { return !messages[i].CreatedAt.Before(read.Since) }):]
	}
	if read.Last == 0 {
		messages = messages[:min(read.First, len(messages))]
	}
	return slices.Clone(messages), false
}

// without returns a message with only the fields that are to be read.
func without(read repo.ReadSessions, m repo.Message) *repo.Message {
	if read.WithoutContent {
		m.Content = ""
	}
	if read.WithoutPayload {
		m.Payload = nil
	}
	return &m
}
