package postgres

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// clockStepsBack makes the expiry of streams an hour later, which is as if the server's clock
// were an hour earlier.
func clockStepsBack(t *testing.T, database pgtest.Database) {
	t.Helper()
	pgtest.Exec(t, database, "UPDATE streams SET expires_at = expires_at + interval '1 hour'")
}

// A stream of which a part was removed does not live again: a reader would get the parts that
// are left as if they were the first ones.
func TestStreamPartlyRemovedStaysGone(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn, store := pgtest.Connect(t, databaseURL), pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	stream := openStream(t, store, "a")
	for range 4 {
		addPart(t, store, &stream)
	}
	expireStream(t, conn, stream)
	if removed, err := removeExpired(t.Context(), store, 2); err != nil || removed != (removal{Parts: 2}) {
		t.Fatalf("removed %+v, %v", removed, err)
	}
	clockStepsBack(t, conn)
	if _, err := store.Streams().Get(t.Context(), "a"); !errors.Is(err, repo.ErrGone) {
		t.Errorf("Get gave %v", err)
	}
	if _, err := store.Streams().Append(t.Context(), stream, []byte("x")); !errors.Is(err, repo.ErrGone) {
		t.Errorf("Append gave %v", err)
	}
	if err := tailStream(t, store, "a", repo.StreamPosition{}).end(t); !errors.Is(err, repo.ErrGone) {
		t.Errorf("Follow ended with %v", err)
	}
	if opened := openStream(t, store, "a"); opened.ID == stream.ID {
		t.Error("Open goes on with a stream that has lost parts")
	}
}

// Nor does one after which another one was opened.
// Guarantee: Streams: A stream that has expired stays so where a clock is behind.
func TestStreamLapsedStaysGone(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn, store := pgtest.Connect(t, databaseURL), pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	stream := openStream(t, store, "a")
	addPart(t, store, &stream)
	expireStream(t, conn, stream)
	tx := beginTx(t, store)
	_ = openStream(t, postgres.Bind(tx), "a") // which removes nothing
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	clockStepsBack(t, conn)
	if _, err := store.Streams().Append(t.Context(), stream, []byte("y")); !errors.Is(err, repo.ErrGone) {
		t.Errorf("Append gave %v", err)
	}
	if err := tailStream(t, store, "a", repo.StreamPosition{StreamID: stream.ID}).end(t); !errors.Is(err, repo.ErrGone) {
		t.Errorf("Follow ended with %v", err)
	}
}

// The removal of the newest stream of a key does not make the one before it, which lives
// longer, the newest one.
func TestStreamRemovalShowsNoOlder(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn, store := pgtest.Connect(t, databaseURL), pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	var opened []repo.Stream
	for range 3 {
		stream := openStream(t, store, "a")
		addPart(t, store, &stream)
		if err := store.Streams().Finish(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		opened = append(opened, stream)
	}
	remove := func() (total removal) {
		t.Helper()
		for range 10 {
			removed, err := removeExpired(t.Context(), store, 1)
			if err != nil {
				t.Fatal(err)
			}
			if removed == (removal{}) {
				return total
			}
			total.Streams, total.Parts = total.Streams+removed.Streams, total.Parts+removed.Parts
		}
		t.Fatal("there is always something to remove")
		return total
	}
	expireStream(t, conn, opened[2])
	expireStream(t, conn, opened[1])
	if removed := remove(); removed != (removal{Streams: 1, Parts: 2}) {
		t.Errorf("removed %+v", removed)
	}
	if got, err := store.Streams().Get(t.Context(), "a"); !errors.Is(err, repo.ErrGone) {
		t.Errorf("Get gave %+v, %v", got, err)
	}
	if err := tailStream(t, store, "a", repo.StreamPosition{}).end(t); !errors.Is(err, repo.ErrGone) {
		t.Errorf("Follow ended with %v", err)
	}
	// What is kept for that stops nothing.
	other := openStream(t, store, "b")
	addPart(t, store, &other)
	expireStream(t, conn, other)
	if removed := remove(); removed != (removal{Streams: 1, Parts: 1}) {
		t.Errorf("removed %+v", removed)
	}
	if got, err := countParts(t, store, opened[0]); err != nil || got != 1 {
		t.Errorf("the one that lives: %d parts, %v", got, err)
	}
	expireStream(t, conn, opened[0])
	if removed := remove(); removed != (removal{Streams: 2, Parts: 1}) {
		t.Errorf("removed %+v", removed)
	}
	if _, err := store.Streams().Get(t.Context(), "a"); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("Get gave %v", err)
	}
}

// countParts counts the parts of a stream that has ended.
func countParts(t *testing.T, r repo.Repositories, stream repo.Stream) (count int, err error) {
	t.Helper()
	for _, err = range r.Streams().Follow(t.Context(), stream.Key, repo.StreamPosition{StreamID: stream.ID}) {
		if err == nil {
			count++
		}
	}
	return count, err
}

// Nor if that one has expired by a clock that steps back afterwards.
func TestStreamRemovalShowsNoOlderLater(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn, store := pgtest.Connect(t, databaseURL), pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	older := openStream(t, store, "a")
	addPart(t, store, &older)
	if err := store.Streams().Finish(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	newer := openStream(t, store, "a")
	expireStream(t, conn, newer)
	pgtest.Exec(t, conn, "UPDATE streams SET expires_at = now() WHERE id = $1", [16]byte(older.ID)) // after the newer one
	if _, err := removeExpired(t.Context(), store, 1); err != nil {
		t.Fatal(err)
	}
	clockStepsBack(t, conn)
	if got, err := store.Streams().Get(t.Context(), "a"); !errors.Is(err, repo.ErrGone) {
		t.Errorf("Get gave %+v, %v", got, err)
	}
	if err := tailStream(t, store, "a", repo.StreamPosition{}).end(t); !errors.Is(err, repo.ErrGone) {
		t.Errorf("Follow ended with %v", err)
	}
}

// What is kept for that does not end a loop that removes until nothing is left.
func TestStreamRemovalGoesOnBehindTheKept(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn, store := pgtest.Connect(t, databaseURL), pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	older := openStream(t, store, "a")
	if err := store.Streams().Finish(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	kept, other := openStream(t, store, "a"), openStream(t, store, "b")
	addPart(t, store, &other)
	expireStream(t, conn, kept)
	expireStream(t, conn, other) // after it
	if removed, err := removeExpired(t.Context(), store, 1); err != nil || removed != (removal{Parts: 1, Streams: 1}) {
		t.Errorf("removed %+v, %v", removed, err)
	}
}
