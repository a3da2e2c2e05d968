package repotest

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// StreamsOfViews tests that a reader of a session finds every stream of it, opened in the session's view or in the whole store, and that
// a view of another namespace finds none.
func StreamsOfViews(t *testing.T, whole, view, other repo.Store) {
	t.Helper()
	ctx, session := t.Context(), create(t, view.Sessions())
	of := repo.NewStream{Key: "answer " + randomName(), Session: session, Owner: "w"}
	openers := []repo.Store{view, whole}
	var opened []repo.Stream
	for i, store := range openers { // under one name, which each of them has
		stream := openStream(t, store, of)
		addParts(t, store, &stream, someParts(2+i)...)
		opened = append(opened, stream)
	}
	wantListed(t, whole, session, opened[1], opened[0])
	wantListed(t, view, session, opened[1], opened[0])
	for i, store := range openers {
		found, later := map[repo.ID]bool{}, repo.Stream{}
		for stream, err := range store.Streams().FollowSession(ctx, session) {
			found[must(t, stream, err).ID] = true
			if len(found) == 2+i { // by the other one, while this one waits
				later = openStream(t, openers[1-i], repo.NewStream{Key: "later " + randomName(), Session: session, Owner: "w"})
			} else if len(found) > 2+i {
				break
			}
		}
		if !found[opened[0].ID] || !found[opened[1].ID] || !found[later.ID] {
			t.Errorf("%d follows %v", i, found)
		}
		for i := range 2 {
			at := repo.StreamPosition{StreamID: opened[i].ID}
			parts, err := readParts(store.Streams().Follow(ctx, of.Key, at), 2+i)
			if must(t, parts, err); len(parts) != 2+i || parts[0].StreamID != opened[i].ID {
				t.Errorf("stream %d has %+v", i, parts)
			}
			_, err = readParts(other.Streams().Follow(ctx, of.Key, at), 1)
			wantStreamGone(t, err, opened[i])
			_, err = other.Streams().Append(ctx, opened[i], []byte("x"))
			wantStreamGone(t, err, opened[i])
		}
	}
	wantListed(t, other, session)
	for i, store := range []repo.Store{whole, view} { // each that of the other
		addParts(t, store, &opened[i], someParts(1)...)
		endStream(t, store, opened[i], repo.StreamFinished)
	}
	if _, err := whole.Streams().Get(ctx, of.Key); err != nil {
		t.Error(err)
	}
	if _, err := other.Streams().Get(ctx, of.Key); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("a name of another view: %v", err)
	}
}
