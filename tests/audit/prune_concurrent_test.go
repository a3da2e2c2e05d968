package audit

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	trail "github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// prunes has old entries, alternately of two types, of which a transaction keeps the
// first from being removed.
type prunes struct {
	*testing.T
	store  *agentstore.Store
	conn   *pgx.Conn
	locker pgx.Tx
	held   repo.ID // the session of the entries of the first type
	before time.Time
}

func newPrunes(t *testing.T, entries int) *prunes {
	t.Helper()
	databaseURL := pgtest.NewDatabase(t)
	p := &prunes{T: t, store: pgtest.OpenStore(t, databaseURL, agentstore.Options{}), conn: pgtest.Connect(t, databaseURL), held: repo.NewID()}
	p.before = time.Now().Add(-time.Hour)
	list := make([]repo.AuditEntry, entries)
	for i := range list {
		list[i] = entryAt(p.before.Add(time.Duration(i-entries) * time.Millisecond))
		if i%2 == 0 {
			list[i].Type, list[i].SessionID = events.DecisionPoint, p.held
		}
	}
	if err := p.store.Audit().Record(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
	sealer, err := trail.NewSealer(p.store.AuditLog(), trail.SealerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for sealed := 0; sealed < entries; {
		n, err := sealer.SealOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sealed += n
	}
	if p.locker, err = pgtest.Connect(t, databaseURL).Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, p.locker, "SELECT FROM audit_entries WHERE id = $1 FOR SHARE", [16]byte(list[0].ID))
	return p
}

// prune begins a prune.
func (p *prunes) prune(types ...string) <-chan auditlog.Pruned {
	pruned := make(chan auditlog.Pruned, 1)
	go func() {
		result, err := p.store.AuditLog().Prune(p.Context(), auditlog.Prune{Before: p.before, Types: types, Reason: "old"})
		if err != nil {
			p.Error(err)
		}
		pruned <- result
	}()
	return pruned
}

// naive removes what one batch by an entry removes, without the lock that makes holds wait.
func (p *prunes) naive(by repo.ID) (pruned int64) {
	p.Helper()
	err := pgx.BeginFunc(p.Context(), pgtest.Connect(p.T, p.conn.Config().ConnString()), func(tx pgx.Tx) error {
		pgtest.Exec(p.T, tx, "SET LOCAL agentstore.audit_prune = 'on'")
		done, err := db.New().AuditPruneBatch(p.Context(), tx, db.AuditPruneBatchParams{
			AfterID: pgtype.UUID{Valid: true}, ByEntry: pgtype.UUID{Bytes: by, Valid: true}, MaxRows: 1000,
		})
		pruned = done.Pruned
		return err
	})
	if err != nil {
		p.Error(err)
	}
	return pruned
}

// waiting waits until n of the database's clients wait for locks, or something is done.
func (p *prunes) waiting(n int, done <-chan struct{}) {
	p.Helper()
	const waiters = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	await.For(p.T, "clients wait for locks", func() bool {
		select {
		case <-done:
			return true
		default:
			return pgtest.Value[int](p.T, p.conn, waiters) >= n
		}
	})
}

func (p *prunes) left() int {
	p.Helper()
	return pgtest.Value[int](p.T, p.conn, "SELECT count(*) FROM audit_entries WHERE occurred_at < $1", p.before)
}

// unlock lets go of the entry.
func (p *prunes) unlock() {
	p.Helper()
	if err := p.locker.Rollback(p.Context()); err != nil {
		p.Fatal(err)
	}
}

// eachWay runs a test of our way and of the naive one.
func eachWay(t *testing.T, test func(t *testing.T, naive bool)) {
	t.Helper()
	for _, naive := range []bool{false, true} {
		t.Run(map[bool]string{false: "ours", true: "naive"}[naive], func(t *testing.T) {
			t.Parallel()
			test(t, naive)
		})
	}
}

// When a hold has been made, what is there then stays, also if a prune is under way. The
// naive way removes what the hold names.
// Guarantee: The audit trail: A hold keeps all entries that exist when it is made.
func TestHoldBesidePrune(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, naive bool) {
		p := newPrunes(t, 20)
		done := make(chan struct{})
		entry := repo.AuditEntry{ID: repo.NewID(), Type: events.AuditPruned, Details: []byte(`{"before":"` + p.before.Format(time.RFC3339Nano) + `"}`)}
		if err := p.store.Audit().Record(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(done)
			if naive {
				p.naive(entry.ID)
			} else {
				<-p.prune()
			}
		}()
		p.waiting(1, nil)
		held := make(chan struct{})
		there := 0
		go func() {
			defer close(held)
			if err := p.store.AuditLog().Hold(t.Context(), auditlog.Hold{SessionID: p.held, Reason: "court"}); err != nil {
				t.Error(err)
			}
			list, err := p.store.Audit().List(t.Context(), repo.AuditFilter{SessionID: p.held, OldestFirst: true}, repo.Page{})
			if err != nil {
				t.Error(err)
			}
			there = len(list.Items)
		}()
		p.waiting(2, held)
		p.unlock()
		<-held
		<-done
		if lost := p.left() < there; lost != naive {
			t.Errorf("%d entries when the hold had been made, %d later", there, p.left())
		}
	})
}

// Of prunes that meet, each removes what the others leave, and each entry is counted once.
func TestPruneBesidePrune(t *testing.T) {
	t.Parallel()
	const entries = 3000
	p := newPrunes(t, entries)
	one := p.prune(events.DecisionPoint)
	p.waiting(1, nil)
	all, again := p.prune(), p.prune()
	p.waiting(2, nil)
	p.unlock()
	if got := (<-one).Entries + (<-all).Entries + (<-again).Entries; got != entries || p.left() != 0 {
		t.Errorf("%d removed, %d of %d left", got, p.left(), entries)
	}
	sealer, err := trail.NewSealer(p.store.AuditLog(), trail.SealerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sealer.SealOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	report, err := trail.Verify(t.Context(), p.store.AuditLog(), trail.VerifyOptions{})
	if err != nil || !report.Intact() || report.Pruned != entries {
		t.Errorf("%+v, %v", report, err)
	}
}
