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

	session repo.Session
	path    []*repo.Message // ascending
}

// readBranch reads a session up to a message. It returns the reader itself if that is the last one of the transcript.
func readBranch(ctx context.Context, sessions Reader, sessionID repo.ID, head int64) (Reader, error) {
	read := repo.ReadSessions{IDs: []repo.ID{sessionID}, Last: 1, WithoutContent: true, WithoutPayload: true}
	last, err := sessions.Read(ctx, read)
	if err != nil || last.Sessions[0] == nil {
		return sessions, err
	}
	shown := last.Sessions[0]
	if len(shown.Messages) > 0 && shown.Messages[0].Sequence == head {
		return sessions, nil
	}
	all, b := map[int64]*repo.Message{}, &branch{sessions, shown.Session, nil}
	for read = (repo.ReadSessions{IDs: read.IDs, First: maxMessages, Branches: true}); read.From <= head; {
		page, err := sessions.Read(ctx, read)
		if err != nil {
			return nil, err
		}
		if page.Sessions[0] == nil || len(page.Sessions[0].Messages) == 0 {
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
	found := &repo.SessionSnapshot{Session: b.session}
	selected := b.path
	if read.Tokens > 0 {
		selected, found.Cut = rules.Prompt(b.path, read)
	} else {
		selected = selected[max(0, slices.IndexFunc(selected, func(m *repo.Message) bool { return m.Sequence >= read.From })):]
		if read.First > 0 && selected[0].Sequence < read.From {
			selected = nil
		}
		if read.Last > 0 {
			selected = selected[max(0, len(selected)-read.Last):]
		} else {
			selected = selected[:min(read.First, len(selected))]
		}
	}
	for _, m := range selected {
		found.Messages = append(found.Messages, *m)
	}
	return repo.Snapshot{Sessions: []*repo.SessionSnapshot{found}}, nil
}
