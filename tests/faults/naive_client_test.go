package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// resendsAsNew sends a message under another id each time.
type resendsAsNew struct{ repo.Sessions }

func (r resendsAsNew) Append(ctx context.Context, session repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	messages[0].ID = repo.NewID()
	return r.Sessions.Append(ctx, session, messages...)
}

// hopes takes an unknown outcome for a good one.
type hopes struct{ repo.Sessions }

func (h hopes) Append(ctx context.Context, session repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	stored, err := h.Sessions.Append(ctx, session, messages...)
	if errors.Is(err, repo.ErrUnknownOutcome) {
		return []repo.Message{{ID: messages[0].ID}}, nil
	}
	return stored, err
}

// The same load and the same comparison find a client that writes twice, and one
// that loses what it takes for written.
func TestNaiveClientsAreCaught(t *testing.T) {
	s := newStage(t, newCluster(t))
	for _, naive := range []struct {
		name   string
		client func(repo.Sessions) repo.Sessions
		// lost is the direction of the network in which nothing arrives.
		lost   string
		caught func(findings) bool
	}{
		// What was sent is written, and its answer does not arrive.
		{"sends again under a new id", func(s repo.Sessions) repo.Sessions { return resendsAsNew{s} }, "downstream",
			func(f findings) bool { return f.uninvited > 0 }},
		// What was sent does not arrive.
		{"takes unknown for written", func(s repo.Sessions) repo.Sessions { return hopes{s} }, "upstream",
			func(f findings) bool { return f.lost > 0 }},
	} {
		t.Run(naive.name, func(t *testing.T) {
			store, err := agentstore.Open(t.Context(), s.proxy.through(t, s.url), agentstore.Options{MaxConns: 16})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = store.Close() }()
			session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
			if err != nil {
				t.Fatal(err)
			}
			l := startLoad(t.Context(), naive.client(store.Sessions()), []repo.ID{session.ID}, 300*time.Millisecond)
			l.awaitAll(t, now(), recoveryBound)
			heal := s.proxy.poison(t, toxic{Type: "timeout", Stream: naive.lost})
			time.Sleep(time.Second)
			heal()
			l.awaitAll(t, now(), recoveryBound)
			l.stop(t)
			checkNothingLeft(t, s.url, store.Pool())
			found := inspect(t, s.url, []repo.ID{session.ID}, l.acknowledged, nil)
			t.Logf("naive: %+v", found)
			if !naive.caught(found) {
				t.Fatal("the harness does not catch the naive client")
			}
		})
	}
}
