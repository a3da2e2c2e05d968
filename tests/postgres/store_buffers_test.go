package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A caller leaves while its append waits for a connection, in a group with another's,
// and reuses its buffers. The group is sent later, without it; the other append is not
// affected.
// Guarantee: Memory: An append whose caller has left keeps no memory of it.
func TestLeftAppendKeepsNoBuffer(t *testing.T) {
	t.Parallel()
	// At another level the first append would be sent twice.
	store := pgtest.OpenStore(t, pgtest.ReadCommitted(pgtest.NewDatabase(t)), agentstore.Options{MaxConns: 1})
	id := pgtest.NewSession(t, store)
	sessions := store.Sessions()

	// pace: the pool does not tell what waits for it
	settle := func() { time.Sleep(100 * time.Millisecond) }
	// The only connection is taken. The first append is a group that waits for it;
	// another client waits behind that, so that the second group waits, too.
	hog, err := store.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, second, stays := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := sessions.Append(t.Context(), id, user("first"))
		first <- err
	}()
	settle()
	release := make(chan struct{})
	held := make(chan struct{})
	go func() {
		conn, err := store.Pool().Acquire(context.WithoutCancel(t.Context()))
		close(held)
		if err != nil {
			return
		}
		<-release
		conn.Release()
	}()
	settle()

	ctx, cancel := context.WithCancel(t.Context())
	message := repo.NewMessage{
		ID: repo.NewID(), Role: repo.RoleTool, Content: "left",
		Metadata: []byte(`{"tenant":"mine"}`), Payload: slices.Repeat([]byte("p"), 1000),
	}
	go func() {
		_, err := sessions.Append(ctx, id, message)
		second <- err
	}()
	go func() {
		_, err := sessions.Append(t.Context(), id, user("stays"))
		stays <- err
	}()
	settle() // both appends wait behind the first
	hog.Release()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	<-held
	settle() // the second group waits for the connection
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) || errors.Is(err, repo.ErrUnknownOutcome) {
		t.Fatalf("the append that was left: %v", err)
	}
	copy(message.Metadata, `{"tenant":XXXXX}`) // not JSON: once, this made the whole group fail
	for i := range message.Payload {
		message.Payload[i] = 'X'
	}
	close(release)
	if err := <-stays; err != nil {
		t.Errorf("the other append of the group: %v", err)
	}
	if _, err := sessions.Message(t.Context(), id, message.ID); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("the append that was left: %v", err)
	}
}
