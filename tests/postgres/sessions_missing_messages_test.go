package postgres

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Messages that were removed by hand, or that row-level security hides, make an export
// and a follower fail with an error: they neither read again and again, nor leave
// anything out, nor say that the session was deleted.
// Guarantee: Messages: Reads and exports fail if messages were removed by hand, except the last ones.
func TestMissingMessages(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	for _, test := range []struct {
		name, removed string
		followed      int // the messages before the first one that is missing
		between       bool
	}{
		{"the first", "sequence = 0", 0, true},
		{"one between", "sequence = 1", 1, true},
		{"the last", "sequence = 2", 2, false},
		{"all", "true", 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			id := pgtest.NewSession(t, store)
			for range 3 {
				if _, err := store.Sessions().Append(t.Context(), id, repo.NewMessage{Role: repo.RoleUser, Content: "x"}); err != nil {
					t.Fatal(err)
				}
			}
			pgtest.Exec(t, pgtest.Connect(t, databaseURL), "DELETE FROM messages WHERE session_id = $1 AND "+test.removed, [16]byte(id))
			ctx := await.Context(t)
			if err := store.Sessions().Export(ctx, id, io.Discard); !errors.Is(err, repo.ErrUnavailable) {
				t.Errorf("Export: %v", err)
			}
			var followed int
			for message, err := range store.Sessions().Follow(ctx, id, 0) {
				if err != nil {
					if !errors.Is(err, repo.ErrUnavailable) {
						t.Errorf("Follow: %v", err)
					}
					break
				}
				if message.Sequence != int64(followed) {
					t.Errorf("Follow: message %d after %d", message.Sequence, followed)
				}
				followed++
			}
			if followed != test.followed {
				t.Errorf("followed %d messages, want %d", followed, test.followed)
			}
			for name, ask := range map[string]repo.ReadSessions{
				"First": {First: 10}, "Last": {Last: 10}, "Since": {Last: 10, Since: time.Unix(1, 0)}, "two": {Last: 3, IDs: []repo.ID{pgtest.NewSession(t, store)}},
			} {
				ask.IDs = append(ask.IDs, id)
				if _, err := store.Sessions().Read(ctx, ask); !errors.Is(err, repo.ErrUnavailable) {
					t.Errorf("Read %s: %v", name, err)
				}
			}
			// These do not read how many there are: they find what is missing before others.
			var streamed error
			for _, err := range store.Sessions().Messages(ctx, id, 0) {
				streamed = err
			}
			_, from := store.Sessions().MessagesFrom(ctx, id, 0, 10)
			_, before := store.Sessions().MessagesBefore(ctx, id, 3, 10)
			_, last := store.Sessions().LastMessages(ctx, id, 10)
			for name, err := range map[string]error{"Stream": streamed, "MessagesFrom": from, "MessagesBefore": before, "LastMessages": last} {
				if errors.Is(err, repo.ErrUnavailable) != test.between {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}
