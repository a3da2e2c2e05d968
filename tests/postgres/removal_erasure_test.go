package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/erase"
	removing "github.com/seed-df90f812/agentstore/repo/removal"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/retention"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestErasure(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	repotest.ErasedInNamespaces(t, store, func(name string, namespaces ...string) error {
		_, err := erase.Subject(t.Context(), store, erase.Request{Owner: name, Namespaces: namespaces, Key: []byte("sixteen bytes or")})
		return err
	})
	repotest.ErasedBesideForks(t, store, func(store removing.Keeper, name string) error {
		_, err := erase.Subject(t.Context(), store, erase.Request{Owner: name, Key: []byte("sixteen bytes or")})
		return err
	})
	repotest.ErasedForks(t, store, func(name string) (messages, texts int64, err error) {
		receipt, err := erase.Subject(t.Context(), store, erase.Request{Owner: name, Key: []byte("sixteen bytes or")})
		return receipt.Messages, receipt.Texts, err
	})
	repotest.DeletionsAreTold(t, store, func(name string) error {
		_, err := erase.Subject(t.Context(), store, erase.Request{Owner: name, Key: []byte("sixteen bytes or")})
		return err
	}, func(namespace string) error {
		ages := map[string]time.Duration{namespace: time.Microsecond}
		_, err := retention.Run(t.Context(), store, retention.Policy{Sessions: ages, Plans: ages})
		return err
	})
}

// looking tells when an erasure has looked what others have left.
type looking struct {
	*agentstore.Store

	looked chan bool
}

func (l looking) Removal() removing.Store { return lookingRemoval{l.Store.Removal(), l.looked} }

type lookingRemoval struct {
	removing.Store

	looked chan bool
}

func (l lookingRemoval) Left(ctx context.Context) (bool, error) {
	left, err := l.Store.Left(ctx)
	select {
	case l.looked <- left:
	default:
	}
	return left, err
}

// Another process that removes what has expired, and what is left of sessions, has the person's stream or session locked,
// and its transaction is undone. The erasure, which finds nothing to remove meanwhile, does not take that for the end.
// Guarantee: Deletion: An erasure has not ended while others are at what it has to remove.
func TestErasureBesideAnotherRemover(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"stream": "SELECT FROM streams WHERE expires_at = 'epoch' FOR UPDATE", "session": "SELECT FROM session_remains FOR UPDATE",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			others, store := pgtest.NewPool(t, databaseURL), pgtest.OpenStore(t, databaseURL, agentstore.Options{})
			// What the store has removed before, and another process has locked, is like this.
			pgtest.Exec(t, others, `INSERT INTO streams (id, key, owner, opener, began, fence, status, ttl, expires_at)
				VALUES (gen_random_uuid(), 'k', 'jane', gen_random_uuid(), 1, 1, 'lapsed', '1 minute', 'epoch')`)
			pgtest.Exec(t, others, "INSERT INTO stream_parts (stream_id, sequence, data) SELECT id, n, 'jane' FROM streams, generate_series(0, 9) n")
			pgtest.Exec(t, others, "INSERT INTO session_turns (session_id, id, digest, first_sequence, message_count) VALUES (gen_random_uuid(), 'jane', decode(repeat('00', 32), 'hex'), 0, 0)")
			pgtest.Exec(t, others, "INSERT INTO session_remains (session_id) SELECT session_id FROM session_turns")
			release := lock(t, others, statement)
			watched, ended := looking{store, make(chan bool)}, make(chan error, 1)
			go func() {
				_, err := erase.Subject(t.Context(), watched, erase.Request{Owner: "jane", Key: []byte("sixteen bytes or")})
				ended <- err
			}()
			select {
			case left := <-watched.looked:
				if !left {
					t.Error("it found that nothing is left")
				}
			case err := <-ended:
				t.Errorf("it ended before it has looked: %v", err)
			}
			release()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			for _, table := range []string{"streams", "stream_parts", "session_turns", "session_remains"} {
				if left := pgtest.Value[int](t, others, fmt.Sprintf("SELECT count(*) FROM %s", table)); left > 0 {
					t.Errorf("%d rows of %s are left", left, table)
				}
			}
		})
	}
}
