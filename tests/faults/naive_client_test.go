package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// resendsAsNew sends a message with a new id each time.
type resendsAsNew struct{ repo.Sessions }

func (r resendsAsNew) Append(ctx context.Context, session repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	messages[0].ID = repo.NewID()
	return r.Sessions.Append(ctx, session, messages...)
}

// hopes takes an unknown outcome for success.
type hopes struct{ repo.Sessions }

func (h hopes) Append(ctx context.Context, session repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	stored, err := h.Sessions.Append(ctx, session, messages...)
	if errors.Is(err, repo.ErrUnknownOutcome) {
		return []repo.Message{{ID: messages[0].ID}}, nil
	}
	return stored, err
}

// The same load and the same comparison find a client that writes messages twice, and
// one that loses messages that it believes to be written.
func TestNaiveClientsAreCaught(t *testing.T) {
	s := newStage(t, newCluster(t))
	for _, naive := range []struct {
		name   string
		client func(repo.Sessions) repo.Sessions
		// lost is the direction of the network in which nothing arrives.
		lost   string
		caught func(findings) bool
	}{
		// The message is written, but its answer does not arrive.
		{
			"sends again under a new id", func(s repo.Sessions) repo.Sessions { return resendsAsNew{s} }, "downstream",
			func(f findings) bool { return f.uninvited > 0 },
		},
		// The message does not arrive.
		{
			"takes unknown for written", func(s repo.Sessions) repo.Sessions { return hopes{s} }, "upstream",
			func(f findings) bool { return f.lost > 0 },
		},
	} {
		t.Run(naive.name, func(t *testing.T) {
			store := pgtest.OpenStore(t, s.proxy.through(t, s.url), agentstore.Options{MaxConns: 16})
			// On a busy machine there may be no message under way when the network fails.
			for attempt := 1; ; attempt++ {
				session := pgtest.NewSession(t, store)
				l := startLoad(t.Context(), naive.client(store.Sessions()), []repo.ID{session}, 300*time.Millisecond)
				l.awaitAll(t, now(), recoveryBound)
				heal := s.proxy.poison(t, toxic{Type: "timeout", Stream: naive.lost})
				time.Sleep(time.Second)
				heal()
				l.awaitAll(t, now(), recoveryBound)
				l.stop(t)
				checkNothingLeft(t, s.url, store.Pool())
				found := inspect(t, s.url, []repo.ID{session}, l.acknowledged, nil)
				t.Logf("naive: %+v", found)
				if naive.caught(found) {
					return
				}
				if attempt == 10 {
					t.Fatal("the harness does not catch the naive client")
				}
			}
		})
	}
}
