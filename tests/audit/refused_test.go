package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// An entry that a trigger refuses, in whatever way, and one that has another's id are set aside,
// and told. They stop none behind them, and none is counted as known.
func TestWriterSetsAsideWhatATriggerRefuses(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	pgtest.Exec(t, pgtest.Connect(t, databaseURL), `CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF NEW.actor = 'null' THEN RETURN NULL; END IF;
			IF NEW.actor LIKE 'raise-%' THEN RAISE EXCEPTION '%', NEW.details USING ERRCODE = substr(NEW.actor, 7); END IF;
			IF NEW.actor = 'syntax' THEN EXECUTE NEW.details::text; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER poison BEFORE INSERT ON audit_entries FOR EACH ROW EXECUTE FUNCTION poison()`)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	var aside []string
	writer, err := audit.NewWriter(store.AuditLog(), audit.Options{OnQuarantine: func(entry repo.AuditEntry, reason error) {
		aside = append(aside, entry.Actor)
		if strings.Contains(reason.Error(), "hidden") {
			t.Errorf("the reason is %v", reason)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := await.Context(t)
	known := entryAt(time.Now())
	known.Actor = "known"
	if err := store.Audit().Record(ctx, known); err != nil {
		t.Fatal(err)
	}
	bad := []string{"null", "raise-P0001", "raise-P0002", "raise-AB123", "raise-42501", "raise-0A000", "raise-23514", "raise-23505", "raise-22001", "syntax"}
	for i, actor := range bad {
		entry := entryAt(time.Now())
		entry.Actor, entry.Details = actor, []byte(`{"a":"hidden"}`)
		if err := writer.Record(ctx, entry); err != nil {
			t.Fatal(err)
		}
		good := entryAt(time.Now())
		good.Actor = fmt.Sprint("good", i)
		if err := writer.Record(ctx, good); err != nil {
			t.Fatal(err)
		}
	}
	double := known // its id and its time
	double.Actor = "double"
	if err := writer.RecordWait(ctx, double); !errors.Is(err, audit.ErrQuarantined) || !errors.Is(err, repo.ErrConflict) {
		t.Errorf("the double: %v", err)
	}
	if err := writer.RecordWait(ctx, known); err != nil {
		t.Errorf("again: %v", err)
	}
	if left, err := writer.Close(ctx); err != nil || len(left) != 0 {
		t.Errorf("%d entries were left, %v", len(left), err)
	}
	stats := writer.Stats()
	if err := stats.Check(); err != nil || stats.Written != int64(len(bad)) || stats.Known != 1 || stats.Quarantined != int64(len(bad))+1 {
		t.Errorf("%+v, %v", stats, err)
	}
	if want := append(slices.Clone(bad), "double"); !slices.Equal(aside, want) {
		t.Errorf("set aside were %q, want %q", aside, want)
	}
}
