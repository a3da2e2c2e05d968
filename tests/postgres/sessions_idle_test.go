package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// What retention has to delete is counted by namespace, to the minute, without what a hold keeps, or is in use.
func TestIdleSessions(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"memory://" + t.Name(), pgtest.NewDatabase(t)} {
		store, err := agentstore.Open(t.Context(), url, agentstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		var sessions []repo.Session
		for i := range 8 {
			session, err := store.Sessions().Create(t.Context(), repo.NewSession{Namespace: fmt.Sprint("ns", i%2), Owner: fmt.Sprint("owner", i)})
			if err != nil {
				t.Fatal(err)
			}
			sessions = append(sessions, session)
		}
		now := sessions[7].CreatedAt
		wants := func(want int64, since map[string]time.Time) time.Duration {
			t.Helper()
			got, longest, err := store.Removal().Idle(t.Context(), since)
			if err != nil || got != want || (longest > 0) != (want > 0) {
				t.Errorf("%s: %d sessions for %v, %v; want %d", url[:6], got, longest, err, want)
			}
			return longest
		}
		later := now.Add(time.Hour)
		wants(0, nil)
		wants(0, map[string]time.Time{"ns0": sessions[0].CreatedAt.Add(-time.Minute), "other": later})
		wants(4, map[string]time.Time{"ns0": later, "ns1": sessions[1].CreatedAt.Add(-time.Minute)})
		if longest := wants(8, map[string]time.Time{"ns0": now.Add(2 * time.Minute), "ns1": later}); longest < time.Hour || longest > later.Sub(sessions[0].CreatedAt)+2*time.Minute {
			t.Errorf("the first one is due for %v", longest)
		}
		for _, hold := range []repo.LegalHold{{SessionID: sessions[0].ID}, {Namespace: "ns0", Owner: "owner2"}, {Namespace: "ns1"}} {
			hold.Reason = "asked for"
			if err := store.Sessions().AddHold(t.Context(), hold); err != nil {
				t.Fatal(err)
			}
		}
		wants(2, map[string]time.Time{"ns0": later, "ns1": later})
		stream := repo.NewStream{Key: "k", Session: sessions[4].ID, Owner: "w", TTL: time.Hour}
		if _, err := store.Streams().Open(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		wants(1, map[string]time.Time{"ns0": later, "ns1": later})
	}
}
