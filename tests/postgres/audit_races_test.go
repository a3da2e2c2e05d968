package postgres

import (
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Many record one entry at once, as after an answer that was lost: it is recorded once, and
// none of them fails.
func TestEntryRecordedAtOnce(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 8})
	for range pgtest.Choose(100, 20) {
		entry := repo.AuditEntry{ID: repo.NewID(), Type: events.ToolInvoked, OccurredAt: time.Now()}
		var all sync.WaitGroup
		begin := make(chan struct{})
		for range 8 {
			all.Go(func() {
				<-begin
				if err := store.Audit().Record(t.Context(), entry); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		all.Wait()
	}
	if want, got := pgtest.Choose(100, 20), pgtest.Value[int](t, store.Pool(), "SELECT count(*)::integer FROM audit_entries"); got != want {
		t.Errorf("%d entries, want %d", got, want)
	}
}
