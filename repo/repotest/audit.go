package repotest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// onAudit is a test that needs only repo.Audit.
func onAudit(name string, run func(t *testing.T, a repo.Audit)) test {
	return test{name, func(t *testing.T, store repo.Store) { run(t, store.Audit()) }}
}

func auditTests() []test {
	return []test{
		onAudit("ZeroValue", testAuditZeroValue),
		onAudit("EveryField", testAuditEveryField),
		onAudit("Details", testAuditDetails),
		onAudit("Years", testAuditYears),
		onAudit("Conflicts", testAuditConflicts),
		onAudit("Invalid", testAuditInvalid),
		onAudit("Again", testAuditAgain),
		onAudit("Missing", testAuditMissing),
		onAudit("Filters", testAuditFilters),
		onAudit("Times", testAuditTimes),
		onAudit("Pages", testAuditPages),
		onAudit("Cursors", testAuditCursors),
		onAudit("Count", testAuditCount),
		onAudit("Export", testAuditExport),
		onAudit("ReadInvalid", testAuditReadInvalid),
	}
}

// auditEntry sets every field. Each entry has a different second in the past.
func auditEntry(of any) repo.AuditEntry {
	return repo.AuditEntry{
		ID: repo.NewID(), OccurredAt: time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond),
		Type: events.ToolInvoked, Namespace: spaceOf(of), Actor: "agent/" + randomName(), User: "user/" + randomName(),
		PlanID: repo.NewID(), SessionID: repo.NewID(), Project: "project/" + randomName(),
		Details: json.RawMessage(`{"tool":"ls","n":[1,2.50,null],"é":"<&>"}`),
	}
}

func record(t *testing.T, a repo.Audit, entries ...repo.AuditEntry) {
	t.Helper()
	if err := a.Record(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
}

// wantEntry compares everything but the time that the database sets.
func wantEntry(t *testing.T, got, want repo.AuditEntry) {
	t.Helper()
	if got.RecordedAt.IsZero() {
		t.Error("the entry has no recorded_at")
	}
	got.RecordedAt, want.RecordedAt = time.Time{}, time.Time{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the entry is\n%+v, want\n%+v", got, want)
	}
}

// wantEntries compares entries and their order by their ids.
func wantEntries(t *testing.T, what string, got, want []repo.AuditEntry) {
	t.Helper()
	ids := func(entries []repo.AuditEntry) []repo.ID {
		ids := make([]repo.ID, len(entries))
		for i, e := range entries {
			ids[i] = e.ID
		}
		return ids
	}
	if !slices.Equal(ids(got), ids(want)) {
		t.Errorf("%s: %d entries, want %d (or in another order)\n%v\n%v", what, len(got), len(want), ids(got), ids(want))
	}
}

// listAll reads a list to its end, limit entries at a time.
func listAll(t *testing.T, a repo.Audit, filter repo.AuditFilter, limit int) []repo.AuditEntry {
	t.Helper()
	var all []repo.AuditEntry
	page := repo.Page{Limit: limit}
	for {
		got, err := a.List(t.Context(), filter, page)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Items) > limit {
			t.Fatalf("a page of %d entries, limit %d", len(got.Items), limit)
		}
		all = append(all, got.Items...)
		if page.After = got.Next; got.Next == "" {
			return all
		}
		if len(got.Items) != limit {
			t.Fatalf("a page of %d entries that is not the last, limit %d", len(got.Items), limit)
		}
	}
}

func oldestFirst(filter repo.AuditFilter) repo.AuditFilter {
	filter.OldestFirst = true
	return filter
}

func testAuditZeroValue(t *testing.T, a repo.Audit) {
	project := randomName()
	before := time.Now()
	record(t, a, repo.AuditEntry{Type: events.ConfigChanged, Project: project})
	got := listAll(t, a, repo.AuditFilter{Project: project}, 10)
	if len(got) != 1 {
		t.Fatalf("there are %d entries", len(got))
	}
	if got[0].ID.IsZero() || got[0].OccurredAt.Before(before.Add(-time.Second)) || got[0].OccurredAt.After(time.Now().Add(time.Second)) {
		t.Errorf("the entry has the id %s and the time %v", got[0].ID, got[0].OccurredAt)
	}
	wantEntry(t, got[0], repo.AuditEntry{
		ID: got[0].ID, OccurredAt: got[0].OccurredAt, Type: events.ConfigChanged, Project: project, Details: json.RawMessage(`{}`),
	})

	// An entry with an id and no time gets the time within the id, so that it can be
	// recorded again.
	e := repo.AuditEntry{ID: repo.NewID(), Type: events.ConfigChanged, Project: randomName()}
	record(t, a, e)
	record(t, a, e)
	got = listAll(t, a, repo.AuditFilter{Project: e.Project}, 10)
	if len(got) != 1 || !got[0].OccurredAt.Equal(time.UnixMilli(int64(binary.BigEndian.Uint64(e.ID[:8])>>16))) {
		t.Errorf("there are the entries %+v", got)
	}
}

func testAuditEveryField(t *testing.T, a repo.Audit) {
	e := auditEntry(a)
	given := e
	given.OccurredAt = e.OccurredAt.Add(999).In(time.FixedZone("", 3600)) // nanoseconds, elsewhere
	given.RecordedAt = time.Now().Add(-1000 * time.Hour)                  // is ignored
	record(t, a, given)
	got, err := a.Entry(t.Context(), e.ID)
	if err != nil {
		t.Fatal(err)
	}
	wantEntry(t, got, e)
	if got.RecordedAt.Equal(given.RecordedAt) {
		t.Error("recorded_at is the caller's")
	}
	if got.OccurredAt.Location() != time.UTC || got.RecordedAt.Location() != time.UTC {
		t.Errorf("the times %v and %v are not UTC", got.OccurredAt, got.RecordedAt)
	}
}

// Details are returned byte for byte: what was hashed is what is read.
func testAuditDetails(t *testing.T, a repo.Audit) {
	for _, object := range objects() {
		e := auditEntry(a)
		e.Details = json.RawMessage(object)
		record(t, a, e)
		got, err := a.Entry(t.Context(), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		wantEntry(t, got, e)
	}
}

// Entries may be as old and as new as the limits allow.
func testAuditYears(t *testing.T, a repo.Audit) {
	plan := repo.NewID()
	var entries []repo.AuditEntry
	for _, at := range []time.Time{
		time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2012, 2, 29, 23, 59, 59, 999_999_000, time.UTC),
		time.Date(2012, 3, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2100, 12, 31, 23, 59, 59, 0, time.UTC),
	} {
		e := auditEntry(a)
		e.OccurredAt, e.PlanID = at, plan
		entries = append(entries, e)
	}
	record(t, a, entries...)
	filter := repo.AuditFilter{PlanID: plan}
	wantEntries(t, "oldest first", listAll(t, a, oldestFirst(filter), 3), entries)
	slices.Reverse(entries)
	wantEntries(t, "newest first", listAll(t, a, filter, 3), entries)
}

func testAuditInvalid(t *testing.T, a repo.Audit) {
	plan := repo.NewID()
	for _, test := range []struct {
		field  string
		change func(e *repo.AuditEntry)
	}{
		{"type", func(e *repo.AuditEntry) { e.Type = "" }},
		{"type", func(e *repo.AuditEntry) { e.Type = secret }},
		{"occurred_at", func(e *repo.AuditEntry) { e.OccurredAt = time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC) }},
		{"occurred_at", func(e *repo.AuditEntry) { e.OccurredAt = time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"occurred_at", func(e *repo.AuditEntry) { e.ID, e.OccurredAt = repo.ID{0: 0xff}, time.Time{} }},
		{"actor", func(e *repo.AuditEntry) { e.Actor = tooLong() }},
		{"actor", func(e *repo.AuditEntry) { e.Actor = "a\x00" + secret }},
		{"user", func(e *repo.AuditEntry) { e.User = "\xff" + secret }},
		{"project", func(e *repo.AuditEntry) { e.Project = tooLong() }},
		{"namespace", func(e *repo.AuditEntry) { e.Namespace = "\x00" + secret }},
		{"details", func(e *repo.AuditEntry) { e.Details = json.RawMessage(`["` + secret + `"]`) }},
		{"details", func(e *repo.AuditEntry) { e.Details = json.RawMessage(`{"` + secret + `":`) }},
		{"details", func(e *repo.AuditEntry) { e.Details = json.RawMessage{} }},
		{"details", func(e *repo.AuditEntry) { e.Details = json.RawMessage(`{"a":"\ud800"}`) }},
		{"details", func(e *repo.AuditEntry) { e.Details = json.RawMessage(`{"a":"\u0000"}`) }},
		{"details", func(e *repo.AuditEntry) {
			e.Details = json.RawMessage(`{"a":"` + string(bytes.Repeat([]byte("x"), repo.MaxMetadataBytes)) + `"}`)
		}},
	} {
		good, bad := auditEntry(a), auditEntry(a)
		good.PlanID, bad.PlanID = plan, plan
		test.change(&bad)
		wantInvalid(t, a.Record(t.Context(), good, bad), "entries[1]."+test.field)
	}
	wantInvalid(t, a.Record(t.Context()), "entries")
	wantInvalid(t, a.Record(t.Context(), make([]repo.AuditEntry, repo.MaxBatchMessages+1)...), "entries")
	if got := listAll(t, a, repo.AuditFilter{PlanID: plan}, 10); len(got) != 0 {
		t.Errorf("%d entries of refused batches are recorded", len(got))
	}
}

// An entry does not change, and is recorded only once.
func testAuditAgain(t *testing.T, a repo.Audit) {
	first, second := auditEntry(a), auditEntry(a)
	second.PlanID = first.PlanID
	second.OccurredAt = first.OccurredAt.Add(time.Second)
	bare := repo.AuditEntry{ID: repo.NewID(), OccurredAt: second.OccurredAt.Add(time.Second), PlanID: first.PlanID, Type: first.Type, Details: json.RawMessage(`{}`)}
	record(t, a, first, bare)
	stored, err := a.Entry(t.Context(), first.ID)
	if err != nil {
		t.Fatal(err)
	}
	record(t, a, first, second, second, first, bare)
	got := listAll(t, a, repo.AuditFilter{PlanID: first.PlanID, OldestFirst: true}, 10)
	wantEntries(t, "once each", got, []repo.AuditEntry{first, second, bare})
	if again, err := a.Entry(t.Context(), first.ID); err != nil || !reflect.DeepEqual(again, stored) {
		t.Errorf("the entry is %+v, %v, was %+v", again, err, stored)
	}
}

// An entry with the id of another, and any other field, is refused, and so are those that
// are recorded with it.
func testAuditConflicts(t *testing.T, a repo.Audit) {
	stored := auditEntry(a)
	record(t, a, stored)
	for field, change := range map[string]func(*repo.AuditEntry){
		"occurred_at": func(e *repo.AuditEntry) { e.OccurredAt = e.OccurredAt.Add(time.Microsecond) },
		"type":        func(e *repo.AuditEntry) { e.Type = events.AuthFailure },
		"namespace":   func(e *repo.AuditEntry) { e.Namespace = "" },
		"actor":       func(e *repo.AuditEntry) { e.Actor = "" },
		"user":        func(e *repo.AuditEntry) { e.User = "another" },
		"plan":        func(e *repo.AuditEntry) { e.PlanID = repo.ID{} },
		"session":     func(e *repo.AuditEntry) { e.SessionID = repo.NewID() },
		"project":     func(e *repo.AuditEntry) { e.Project = "" },
		"details":     func(e *repo.AuditEntry) { e.Details = append([]byte(" "), e.Details...) },
	} {
		beside, other := auditEntry(a), stored
		change(&other)
		wantAuditConflict(t, a.Record(t.Context(), beside, other), stored.ID)
		_, err := a.Entry(t.Context(), beside.ID)
		wantNotFound(t, err, "audit entry", beside.ID)
		// Both in one call.
		again := beside
		change(&again)
		wantAuditConflict(t, a.Record(t.Context(), beside, again), beside.ID)
		if t.Failed() {
			t.Fatal(field)
		}
	}
	if got, err := a.Entry(t.Context(), stored.ID); err != nil {
		t.Error(err)
	} else {
		wantEntry(t, got, stored)
	}
}

func wantAuditConflict(t *testing.T, err error, id repo.ID) {
	t.Helper()
	if conflict, ok := errors.AsType[*repo.ExistsError](err); !ok || conflict.ID != id {
		t.Errorf("got %v, want a conflict with entry %s", err, id)
	}
}

func testAuditMissing(t *testing.T, a repo.Audit) {
	for _, id := range []repo.ID{repo.NewID(), {}} {
		_, err := a.Entry(t.Context(), id)
		wantNotFound(t, err, "audit entry", id)
	}
}

// Every combination of fields selects the same entries as rules.Selects.
func testAuditFilters(t *testing.T, a repo.Audit) {
	one, two := auditEntry(a), auditEntry(a)
	two.Type = events.AuthFailure
	var entries []repo.AuditEntry
	for bits := range 1 << 6 { // each field is one's or two's, or not set
		e := repo.AuditEntry{ID: repo.NewID(), OccurredAt: one.OccurredAt.Add(time.Duration(bits) * time.Millisecond), Type: one.Type, Details: json.RawMessage(`{}`)}
		pick := func(bit int) repo.AuditEntry {
			if bits&(1<<bit) == 0 {
				return one
			}
			return two
		}
		e.Type, e.Actor, e.User = pick(0).Type, pick(1).Actor, pick(2).User
		e.PlanID, e.SessionID, e.Project = pick(3).PlanID, pick(4).SessionID, pick(5).Project
		entries = append(entries, e)
	}
	unset := one
	unset.ID, unset.Actor, unset.User, unset.Project = repo.NewID(), "", "", ""
	unset.PlanID, unset.SessionID = repo.ID{}, repo.ID{}
	entries = append(entries, unset)
	record(t, a, entries...)
	for bits := 1; bits < 1<<6; bits++ { // which fields are asked for
		filter := repo.AuditFilter{}
		set := func(bit int, apply func()) {
			if bits&(1<<bit) != 0 {
				apply()
			}
		}
		set(0, func() { filter.Type = two.Type })
		set(1, func() { filter.Actor = one.Actor })
		set(2, func() { filter.User = one.User })
		set(3, func() { filter.PlanID = two.PlanID })
		set(4, func() { filter.SessionID = one.SessionID })
		set(5, func() { filter.Project = two.Project })
		if bits == 1 { // other tests record this type too
			filter.OccurredFrom, filter.OccurredBefore = one.OccurredAt, one.OccurredAt.Add(time.Second)
		}
		var want []repo.AuditEntry
		for _, e := range entries {
			if rules.Selects(filter, e) {
				want = append(want, e)
			}
		}
		own := func(all []repo.AuditEntry) []repo.AuditEntry {
			return slices.DeleteFunc(all, func(e repo.AuditEntry) bool {
				return !slices.ContainsFunc(entries, func(own repo.AuditEntry) bool { return own.ID == e.ID })
			})
		}
		wantEntries(t, "oldest first", own(listAll(t, a, oldestFirst(filter), 100)), want)
		slices.Reverse(want)
		wantEntries(t, "newest first", own(listAll(t, a, filter, 100)), want)
		if bits == 1 {
			continue
		}
		count, more, err := a.Count(t.Context(), filter, 0)
		if err != nil || more || count != int64(len(want)) {
			t.Errorf("counted %d, %v, want %d", count, err, len(want))
		}
	}
}

// The time range includes its first moment and excludes its last.
func testAuditTimes(t *testing.T, a repo.Audit) {
	e := auditEntry(a)
	var entries []repo.AuditEntry
	for i := range 5 {
		next := e
		next.ID, next.OccurredAt = repo.NewID(), e.OccurredAt.Add(time.Duration(i)*time.Microsecond)
		entries = append(entries, next)
	}
	record(t, a, entries...)
	for from := range 5 {
		for before := from; before < 5; before++ {
			filter := repo.AuditFilter{Project: e.Project, OccurredFrom: entries[from].OccurredAt, OccurredBefore: entries[before].OccurredAt}
			wantEntries(t, "range", listAll(t, a, oldestFirst(filter), 10), entries[from:before])
		}
	}
}

// A list is complete and in order, whatever the size of its pages, also if entries
// have the same time.
func testAuditPages(t *testing.T, a repo.Audit) {
	e := auditEntry(a)
	var entries []repo.AuditEntry
	for i := range 23 {
		next := e
		next.ID, next.OccurredAt = repo.NewID(), e.OccurredAt.Add(time.Duration(i/5)*time.Hour*24*20)
		entries = append(entries, next)
	}
	record(t, a, entries...)
	slices.SortFunc(entries, func(a, b repo.AuditEntry) int {
		if c := a.OccurredAt.Compare(b.OccurredAt); c != 0 {
			return c
		}
		return bytes.Compare(a.ID[:], b.ID[:])
	})
	backwards := slices.Clone(entries)
	slices.Reverse(backwards)
	for _, filter := range []repo.AuditFilter{
		{Actor: e.Actor},
		{User: e.User},
		{PlanID: e.PlanID},
		{SessionID: e.SessionID},
		{Project: e.Project},
		{Project: e.Project, Type: e.Type, OccurredFrom: e.OccurredAt},
	} {
		for _, limit := range []int{1, 2, 5, 22, 23, 24} {
			wantEntries(t, "oldest first", listAll(t, a, oldestFirst(filter), limit), entries)
			wantEntries(t, "newest first", listAll(t, a, filter, limit), backwards)
		}
	}
}

// A cursor belongs to its list.
func testAuditCursors(t *testing.T, a repo.Audit) {
	e := auditEntry(a)
	second := e
	second.ID = repo.NewID()
	record(t, a, e, second)
	filter := repo.AuditFilter{Project: e.Project}
	page, err := a.List(t.Context(), filter, repo.Page{Limit: 1})
	if err != nil || page.Next == "" {
		t.Fatalf("the cursor %q, %v", page.Next, err)
	}
	for _, after := range []string{"x", page.Next + "x", page.Next[1:]} {
		_, err := a.List(t.Context(), filter, repo.Page{After: after})
		wantInvalid(t, err, "page.after")
	}
	_, err = a.List(t.Context(), oldestFirst(filter), repo.Page{After: page.Next})
	wantInvalid(t, err, "page.after")
	for _, other := range []repo.AuditFilter{
		{},
		{Actor: e.Project},
		{User: e.Project},
		{Project: e.Project, Type: e.Type},
		{Project: e.Project, PlanID: e.PlanID},
		{Project: e.Project, SessionID: e.SessionID},
		{Project: e.Project, OccurredFrom: e.OccurredAt},
		{Project: e.Project, OccurredBefore: e.OccurredAt},
	} {
		_, err := a.List(t.Context(), other, repo.Page{After: page.Next})
		wantInvalid(t, err, "page.after")
	}
}

func testAuditCount(t *testing.T, a repo.Audit) {
	e := auditEntry(a)
	var entries []repo.AuditEntry
	for range 7 {
		next := e
		next.ID = repo.NewID()
		entries = append(entries, next)
	}
	record(t, a, entries...)
	for limit, want := range map[int]int64{0: 7, 8: 7, 7: 7, 6: 6, 1: 1, limits.MaxAuditCount: 7} {
		if got, more, err := a.Count(t.Context(), repo.AuditFilter{PlanID: e.PlanID}, limit); err != nil || got != want || more != (want < 7) {
			t.Errorf("limit %d: %d, %v, %v, want %d", limit, got, more, err, want)
		}
	}
	if got, more, err := a.Count(t.Context(), repo.AuditFilter{PlanID: repo.NewID()}, 0); err != nil || more || got != 0 {
		t.Errorf("of nothing: %d, %v, %v", got, more, err)
	}
}

func testAuditExport(t *testing.T, a repo.Audit) {
	const count = repo.MaxPageSize + 7 // more than a page
	e := auditEntry(a)
	bare := e
	bare.PlanID, bare.Actor, bare.User, bare.Details = repo.ID{}, "", "", json.RawMessage(`{}`)
	var entries []repo.AuditEntry
	for i := range count {
		next := e
		if i%2 == 1 {
			next = bare
		}
		next.ID, next.OccurredAt = repo.NewID(), e.OccurredAt.Add(time.Duration(i)*time.Microsecond)
		entries = append(entries, next)
	}
	record(t, a, entries...)
	var document bytes.Buffer
	if err := a.Export(t.Context(), repo.AuditFilter{Project: e.Project}, &document); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(&document)
	n := 0
	for ; lines.Scan(); n++ {
		var entry repo.AuditEntry
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			t.Fatal(err)
		}
		wantEntry(t, entry, entries[n])
		if t.Failed() {
			return
		}
	}
	if n != count {
		t.Errorf("%d lines, want %d", n, count)
	}
	if err := a.Export(t.Context(), repo.AuditFilter{Project: e.Project}, failingWriter{}); !errors.Is(err, errWriter) {
		t.Errorf("the writer's error came back as %v", err)
	}
	if err := a.Export(t.Context(), repo.AuditFilter{Project: randomName()}, failingWriter{}); err != nil {
		t.Errorf("nothing to write: %v", err)
	}
}

var errWriter = errors.New("the writer's own")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errWriter }

func testAuditReadInvalid(t *testing.T, a repo.Audit) {
	for field, filter := range map[string]repo.AuditFilter{
		"type": {Type: secret}, "actor": {Actor: tooLong()}, "user": {User: "\x00" + secret}, "project": {Project: "\xff" + secret},
	} {
		_, err := a.List(t.Context(), filter, repo.Page{})
		wantInvalid(t, err, field)
		_, _, err = a.Count(t.Context(), filter, 0)
		wantInvalid(t, err, field)
		wantInvalid(t, a.Export(t.Context(), filter, failingWriter{}), field)
	}
	for _, limit := range []int{-1, repo.MaxPageSize + 1} {
		_, err := a.List(t.Context(), repo.AuditFilter{}, repo.Page{Limit: limit})
		wantInvalid(t, err, "limit")
	}
	for _, limit := range []int{-1, limits.MaxAuditCount + 1} {
		_, _, err := a.Count(t.Context(), repo.AuditFilter{}, limit)
		wantInvalid(t, err, "limit")
	}
}
