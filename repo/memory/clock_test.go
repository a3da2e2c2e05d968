package memory

import (
	"testing"
	"time"
)

// No time of a session goes backwards if the clock is set back, or was behind an
// imported session's times.
func TestClockNeverGoesBackwards(t *testing.T) {
	store := New()
	id := newSession(t, store)
	ahead := time.Now().UTC().Add(time.Hour).Truncate(time.Microsecond)
	store.tables.last = ahead
	messages, err := store.Sessions().Append(t.Context(), id, user("a"))
	if err != nil || !messages[0].CreatedAt.Equal(ahead) {
		t.Fatalf("created at %v, %v, want %v", messages, err, ahead)
	}
	store.tables.last = time.Time{}
	store.tables.sessions.get(id).UpdatedAt = ahead
	if _, err := store.Sessions().Append(t.Context(), id, user("b")); err != nil {
		t.Fatal(err)
	}
	session, err := store.Sessions().Get(t.Context(), id)
	if err != nil || !session.UpdatedAt.Equal(ahead) {
		t.Errorf("updated at %v, %v, want %v", session.UpdatedAt, err, ahead)
	}
}
