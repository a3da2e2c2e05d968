package rules_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// A normalized entry does not change if it is normalized again: it may go through a
// spool and be recorded again as the same entry.
func FuzzAuditEntryNormalize(f *testing.F) {
	f.Add("tool_invoked", "agent", "user", "project", []byte(`{"a":1}`), int64(1_700_000_000_123_456_789))
	f.Add("", "\x00", "\xff", "", []byte(`{"a":"\ud800"}`), int64(0))
	f.Add("config_changed", "", "", "", []byte(nil), int64(-1))
	f.Fuzz(func(t *testing.T, kind, actor, user, project string, details []byte, at int64) {
		entry := repo.AuditEntry{Type: kind, Actor: actor, User: user, Project: project, Details: details, OccurredAt: time.Unix(0, at)}
		normal, err := rules.NormalizeEntry(entry)
		if err != nil {
			if !errors.Is(err, repo.ErrInvalid) {
				t.Errorf("the error is %v", err)
			}
			if !reflect.DeepEqual(normal, repo.AuditEntry{}) {
				t.Error("a refused entry came back")
			}
			return
		}
		again, err := rules.NormalizeEntry(normal)
		if err != nil || !reflect.DeepEqual(again, normal) {
			t.Errorf("%+v, %v, was %+v", again, err, normal)
		}
		if normal.ID.IsZero() || normal.OccurredAt.Nanosecond()%1000 != 0 || normal.OccurredAt.Location() != time.UTC || !json.Valid(normal.Details) {
			t.Errorf("normalized to %+v", normal)
		}
	})
}

// A cursor is decoded to the place that it encodes, to the microsecond.
func TestAuditCursor(t *testing.T) {
	last := repo.AuditEntry{ID: repo.NewID(), OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)}
	for _, oldest := range []bool{false, true} {
		filter := repo.AuditFilter{Type: events.ToolInvoked, User: "user", OccurredFrom: last.OccurredAt.In(time.FixedZone("", 7200)), OldestFirst: oldest}
		first, err := rules.AuditList(filter, repo.Page{})
		if err != nil {
			t.Fatal(err)
		}
		list, err := rules.AuditList(filter, repo.Page{After: first.Next(last)})
		if err != nil || !list.After.CreatedAt.Equal(last.OccurredAt) || list.After.ID != last.ID {
			t.Errorf("oldest first %v: %v, %v", oldest, list.After, err)
		}
		// The first page's place is before every entry.
		at, id := first.After.CreatedAt, first.After.ID
		if before := at.Compare(last.OccurredAt); !oldest && (before <= 0 || id == repo.ID{}) || oldest && before >= 0 {
			t.Errorf("oldest first %v begins at %v, %s", oldest, at, id)
		}
	}
}
