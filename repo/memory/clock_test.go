package memory

import (
	"testing"
	"time"
)

// A clock that is set back, or that an import was ahead of, moves no time of a
// session back.
func TestClockNeverGoesBackwards(t *testing.T) {
	store := New()
	id := newSession(t, store)
	ahead := time.Now().UTC().Add(time.Hour).Truncate(time.Microsecond)
	store.last = ahead
	messages, err := store.Sessions().Append(t.Context(), id, user("a"))
	if err != nil || !messages[0].CreatedAt.Equal(ahead) {
		t.Fatalf("created at %v, %v, want %v", messages, err, ahead)
	}
	store.last = time.Time{}
	store.tables.sessions[id].session.UpdatedAt = ahead
	if _, err := store.Sessions().Append(t.Context(), id, user("b")); err != nil {
		t.Fatal(err)
	}
	session, err := store.Sessions().Get(t.Context(), id)
	if err != nil || !session.UpdatedAt.Equal(ahead) {
		t.Errorf("updated at %v, %v, want %v", session.UpdatedAt, err, ahead)
	}
}
