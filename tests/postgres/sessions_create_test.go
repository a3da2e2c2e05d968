package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// If the answer to a creation is lost, the store repeats it. Only if it made the id
// itself does it know that the session that it then finds is its own.
// Guarantee: Faults: A creation whose answer is lost does not conflict with its own session.
func TestLostCreation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		session repo.NewSession
		exists  bool // before
		want    error
		existed bool
	}{
		"must be new":                {repo.NewSession{Key: "k", Existing: repo.ExistingNone}, false, nil, false},
		"must be new, by id":         {repo.NewSession{ID: repo.NewID(), Existing: repo.ExistingNone}, false, repo.ErrUnknownOutcome, false},
		"must be new, by both":       {repo.NewSession{ID: repo.NewID(), Key: "k", Existing: repo.ExistingNone}, false, repo.ErrUnknownOutcome, false},
		"must be new, and exists":    {repo.NewSession{Key: "k", Existing: repo.ExistingNone}, true, repo.ErrConflict, false},
		"must be new, without an id": {repo.NewSession{Existing: repo.ExistingNone}, false, nil, false},
		"without an id":              {repo.NewSession{}, false, nil, false},
		"the same":                   {repo.NewSession{Key: "k"}, false, nil, false},
		"the same, by id":            {repo.NewSession{ID: repo.NewID(), Key: "k"}, false, nil, true},
		"the same, and exists":       {repo.NewSession{Key: "k"}, true, nil, true},
		"whatever is there":          {repo.NewSession{Key: "k", Existing: repo.ExistingAny}, false, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := pgtest.NewDatabase(t)
			u, err := url.Parse(direct)
			if err != nil {
				t.Fatal(err)
			}
			network := pgtest.NewLosing(t, u.Host)
			u.Host = network.Addr
			store, other := pgtest.OpenStore(t, u.String(), agentstore.Options{MaxConns: 1}), pgtest.OpenStore(t, direct, agentstore.Options{})
			pgtest.NewSession(t, store) // prepares the statement
			if test.exists {
				if _, err := other.Sessions().Create(t.Context(), test.session); err != nil {
					t.Fatal(err)
				}
			}
			network.Left.Store(1)
			created, err := store.Sessions().Create(t.Context(), test.session)
			if !network.Lost.Load() {
				t.Fatal("no answer was lost")
			}
			if !errors.Is(err, test.want) || created.Existed != test.existed {
				t.Errorf("%v, existed: %t; want %v, %t", err, created.Existed, test.want, test.existed)
			}
			count := pgtest.Value[int](t, other.Pool(), "SELECT count(*)::int FROM sessions")
			if count != 2 {
				t.Errorf("there are %d sessions, want 2", count)
			}
		})
	}
}

// The first attempt to create a session that must be new arrives after the second,
// which created it.
func TestFirstAttemptOfCreationArrivesLate(t *testing.T) {
	t.Parallel()
	l := newDelayed(t, repo.NewSession{})
	new := repo.NewSession{Key: "k", Owner: "o", Existing: repo.ExistingNone}
	l.network.arm(l.store)
	created, err := l.store.Sessions().Create(t.Context(), new)
	if l.network.armed.Load() {
		t.Fatal("nothing was kept")
	}
	if err != nil || created.Existed {
		t.Errorf("%v, existed: %t", err, created.Existed)
	}
	l.arrive(t)
	stored, err := l.direct.Sessions().Get(t.Context(), created.ID)
	if err != nil || !stored.CreatedAt.Equal(created.CreatedAt) {
		t.Errorf("created at %v, stored is %v, %v", created.CreatedAt, stored.CreatedAt, err)
	}
	if _, err := l.store.Sessions().Create(t.Context(), new); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("the repeated call gave %v, want a conflict", err)
	}
}

// A session that is deleted between the two statements of a creation is created.
func TestCreationOfADeletedSession(t *testing.T) {
	t.Parallel()
	for _, mode := range []repo.Existing{repo.ExistingSame, repo.ExistingAny} {
		databaseURL := pgtest.NewDatabase(t)
		other := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
		new := repo.NewSession{Key: "k", Existing: mode}
		first, err := other.Sessions().Create(t.Context(), new)
		if err != nil {
			t.Fatal(err)
		}
		deletes := &beforeStatement{name: "SessionListTaken", run: func() {
			if _, err := other.Sessions().Delete(t.Context(), first.ID); err != nil {
				t.Error(err)
			}
		}}
		store := pgtest.OpenStore(t, pgtest.WithParameter(databaseURL, "application_name", "traced"), agentstore.Options{Tracer: deletes})
		created, err := store.Sessions().Create(t.Context(), new)
		if err != nil || created.Existed || !created.CreatedAt.After(first.CreatedAt) {
			t.Errorf("%s: %+v, %v", mode, created, err)
		}
	}
}

// missingSession makes many callers append to a session that does not exist, each with
// a different description of it, and returns how many appends failed.
func missingSession(t *testing.T, store *agentstore.Store, prefix string, appendTo func(ctx context.Context, key repo.SessionKey, session repo.NewSession, message repo.NewMessage) error) int {
	t.Helper()
	const rounds, callers = 5, 64
	var failed int
	for round := range rounds {
		key := repo.SessionKey{Key: repo.JoinKey(prefix, string(rune('a'+round)))}
		var mu sync.Mutex
		var running sync.WaitGroup
		start := make(chan struct{})
		lost := 0
		for caller := range callers {
			running.Go(func() {
				<-start
				session := repo.NewSession{Key: key.Key, Actor: string(rune('A' + caller))}
				if err := appendTo(t.Context(), key, session, user("x")); err != nil {
					mu.Lock()
					defer mu.Unlock()
					lost++
				}
			})
		}
		close(start)
		running.Wait()
		session, err := bykey.Of(store.Sessions(), key).Get(t.Context())
		if err != nil || session.MessageCount != int64(callers-lost) {
			t.Errorf("%d messages, want %d: %v", session.MessageCount, callers-lost, err)
		}
		failed += lost
	}
	return failed
}

// No append to a session that does not exist yet fails. Those of an implementation that
// looks for the session before it creates it do. The harness finds that.
// Guarantee: Sessions: Of many callers that append to a missing session one creates it.
func TestAppendOrCreate(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 16})
	sessions := store.Sessions()
	if failed := missingSession(t, store, "ours", func(ctx context.Context, key repo.SessionKey, session repo.NewSession, message repo.NewMessage) error {
		_, err := bykey.Of(sessions, key).AppendOrCreate(ctx, session, message)
		if err != nil {
			t.Error(err)
		}
		return err
	}); failed > 0 {
		t.Errorf("%d appends failed", failed)
	}
	// Whether its callers meet depends on chance.
	attempt := 0
	await.For(t, "the naive implementation loses an append", func() bool {
		attempt++
		return missingSession(t, store, fmt.Sprint("naive", attempt), func(ctx context.Context, key repo.SessionKey, session repo.NewSession, message repo.NewMessage) error {
			id, err := sessions.Find(ctx, key)
			if errors.Is(err, repo.ErrNotFound) {
				var created repo.Session
				created, err = sessions.Create(ctx, session)
				id = created.ID
			}
			if err == nil {
				_, err = sessions.Append(ctx, id, message)
			}
			return err
		}) > 0
	})
}
