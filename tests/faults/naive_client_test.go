package faults

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// naiveClient counts the calls that have failed.
type naiveClient struct {
	repo.Sessions
	failed *atomic.Int64
}

func (n naiveClient) Append(ctx context.Context, session repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	stored, err := n.Sessions.Append(ctx, session, messages...)
	if err != nil {
		n.failed.Add(1)
	}
	return stored, err
}

// resendsAsNew sends a message with a new id each time.
type resendsAsNew struct{ naiveClient }

func (r resendsAsNew) Append(ctx context.Context, session repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	messages[0].ID = repo.NewID()
	return r.naiveClient.Append(ctx, session, messages...)
}

// hopes takes an unknown outcome for success.
type hopes struct{ naiveClient }

func (h hopes) Append(ctx context.Context, session repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	stored, err := h.naiveClient.Append(ctx, session, messages...)
	if errors.Is(err, repo.ErrUnknownOutcome) {
		return []repo.Message{{ID: messages[0].ID}}, nil
	}
	return stored, err
}

// The same load and the same comparison find a client that writes messages twice, and
// one that loses messages that it believes to be written.
func TestNaiveClientsAreCaught(t *testing.T) {
	s := newSharedStage(t)
	for _, naive := range []struct {
		name   string
		client func(naiveClient) repo.Sessions
		// lost is the direction of the network in which nothing arrives.
		lost   string
		caught func(findings) bool
	}{
		// The message is written, but its answer does not arrive.
		{
			"sends again under a new id", func(n naiveClient) repo.Sessions { return resendsAsNew{n} }, "downstream",
			func(f findings) bool { return f.uninvited > 0 },
		},
		// The message does not arrive.
		{
			"takes unknown for written", func(n naiveClient) repo.Sessions { return hopes{n} }, "upstream",
			func(f findings) bool { return f.lost > 0 },
		},
	} {
		t.Run(naive.name, func(t *testing.T) {
			store := pgtest.OpenStore(t, s.proxy.through(t, s.url), agentstore.Options{MaxConns: 16})
			// All may wait for a connection when the network fails, so that no message is under way.
			await.For(t, "the harness catches the naive client", func() bool {
				session := pgtest.NewSession(t, store)
				var failed atomic.Int64
				l := startLoad(t.Context(), naive.client(naiveClient{store.Sessions(), &failed}), []repo.ID{session})
				l.awaitAll(t, now())
				heal := s.proxy.poison(t, toxic{Type: "timeout", Stream: naive.lost})
				l.giveUpUntil(t, "all calls end without an answer", func() bool { return failed.Load() >= writers })
				heal()
				l.awaitAll(t, now())
				l.stop(t)
				checkNothingLeft(t, s.url, store.Pool())
				found := inspect(t, s.url, []repo.ID{session}, l.acknowledged, nil)
				t.Logf("naive: %+v", found)
				return naive.caught(found)
			})
		})
	}
}
