package window

import (
	"context"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// branch reads the path to a message as if that was the transcript.
type branch struct {
	Reader

	path []*repo.Message // ascending
}

// readBranch reads a session up to a message.
func readBranch(ctx context.Context, sessions Reader, sessionID repo.ID, head int64) (Reader, error) {
	all, b := map[int64]*repo.Message{}, &branch{sessions, nil}
	for read := (repo.ReadSessions{IDs: []repo.ID{sessionID}, First: maxMessages, Branches: true}); read.From <= head; {
		page, err := sessions.Read(ctx, read)
		if err != nil || page.Sessions[0] == nil {
			return sessions, err
		}
		if len(page.Sessions[0].Messages) == 0 {
			break
		}
		for _, m := range page.Sessions[0].Messages {
			all[m.Sequence], read.From = &m, m.Sequence+1
		}
	}
	for m := all[head]; m != nil; m = all[m.Follows] {
		b.path = append(b.path, m)
	}
	if len(b.path) == 0 {
		return nil, &repo.InvalidError{Field: "options.Head", Reason: "is no message of the session"}
	}
	slices.Reverse(b.path)
	return b, nil
}

func (b *branch) Read(_ context.Context, read repo.ReadSessions) (repo.Snapshot, error) {
	found, selected := &repo.SessionSnapshot{}, b.path
	switch {
	case read.Tokens > 0:
		selected, found.Cut = rules.Prompt(selected, read)
	case read.Last > 0:
		selected = selected[max(0, len(selected)-read.Last):]
	default:
		selected = slices.DeleteFunc(slices.Clone(selected), func(m *repo.Message) bool { return m.Sequence < read.From })
		selected = selected[:min(read.First, len(selected))]
	}
	for _, m := range selected {
		found.Messages = append(found.Messages, *m)
	}
	return repo.Snapshot{Sessions: []*repo.SessionSnapshot{found}}, nil
}
