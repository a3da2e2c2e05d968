// Package usagetest tests package usage on a store.
package usagetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/usage"
)

// Run tests the package on stores that open returns, each without counters.
func Run(t *testing.T, open func(t *testing.T) repo.Store) {
	for name, test := range map[string]func(*testing.T, repo.Store){
		"Report": testReport, "Once": testOnce, "NextDay": testNextDay, "Refused": testRefused, "Invalid": testInvalid, "InvalidQueries": testInvalidQueries,
		"Many": testMany, "Long": testLong, "Fold": testFold, "FoldMeanwhile": testFoldMeanwhile, "FoldRaces": testFoldRaces, "Forget": testForget,
		"Deleted": testDeleted, "NoCounters": testNoCounters, "TooLarge": testTooLarge, "Ended": testEnded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

const day = usage.Day("2026-03-31")

func use(day usage.Day, model, tenant string, amount int64) usage.Use {
	return usage.Use{
		Day: day, Model: model, Labels: [2]string{tenant, "chat"},
		Usage: repo.Usage{InputTokens: 1000 * amount, OutputTokens: 100 * amount, Cost: repo.Cost(amount)},
	}
}

func newSession(t *testing.T, store repo.Store, session repo.NewSession) repo.ID {
	t.Helper()
	made, err := store.Sessions().Create(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// counted returns a turn that counts.
func counted(t *testing.T, session repo.ID, id string, used ...usage.Use) repo.Turn {
	t.Helper()
	turn := repo.Turn{SessionID: session, ID: id, Messages: []repo.NewMessage{{Role: repo.RoleAssistant, Content: "answer"}}}
	if err := usage.Count(&turn, used...); err != nil {
		t.Fatal(err)
	}
	return turn
}

// add stores turns that count, in a session of their own.
func add(t *testing.T, store repo.Store, used ...usage.Use) {
	t.Helper()
	id := newSession(t, store, repo.NewSession{})
	for i, u := range used {
		if _, err := store.Sessions().AppendTurn(t.Context(), counted(t, id, fmt.Sprint(i), u)); err != nil {
			t.Fatal(err)
		}
	}
}

func report(t *testing.T, store repo.Store, from, to usage.Day, by ...usage.Dimension) []usage.Row {
	t.Helper()
	rows, err := usage.Report(t.Context(), store.State(), usage.Query{From: from, To: to, By: by})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func row(day usage.Day, model, tenant, feature string, uses, amount int64) usage.Row {
	return usage.Row{
		Day: day, Model: model, Labels: [2]string{tenant, feature}, Uses: uses,
		Usage: repo.Usage{InputTokens: 1000 * amount, OutputTokens: 100 * amount, Cost: repo.Cost(amount)},
	}
}

func wantRows(t *testing.T, got []usage.Row, want ...usage.Row) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the report is\n%+v, want\n%+v", got, want)
	}
}

func testReport(t *testing.T, store repo.Store) {
	wantRows(t, report(t, store, day, day))
	add(t, store, use("2026-03-30", "a", "x", 1), use(day, "a", "x", 2), use(day, "b/~", "x", 4), use(day, "a", "y\n/", 8), use("2026-04-01", "a", "x", 16))
	add(t, store, use(day, "a", "x", 32), use("2026-03-30", "", "", 64))
	from, to := usage.Day("2026-03-30"), usage.Day("2026-04-01")
	wantRows(t, report(t, store, from, to), row("", "", "", "", 7, 127))
	wantRows(t, report(t, store, day, day), row("", "", "", "", 4, 46))
	wantRows(t, report(t, store, from, to, usage.ByDay), row(from, "", "", "", 2, 65), row(day, "", "", "", 4, 46), row(to, "", "", "", 1, 16))
	wantRows(t, report(t, store, from, to, usage.ByModel), row("", "", "", "", 1, 64), row("", "a", "", "", 5, 59), row("", "b/~", "", "", 1, 4))
	wantRows(t, report(t, store, from, to, usage.ByLabel1, usage.ByLabel2), row("", "", "", "chat", 1, 64), row("", "", "x", "chat", 5, 55), row("", "", "y\n/", "chat", 1, 8))
	wantRows(t, report(t, store, day, to, usage.ByModel, usage.ByDay, usage.ByLabel1, usage.ByDay), row(day, "a", "x", "", 2, 34), row(day, "a", "y\n/", "", 1, 8),
		row(day, "b/~", "x", "", 1, 4), row(to, "a", "x", "", 1, 16))
	wantRows(t, report(t, store, "2026-04-02", "2027-04-02", usage.ByDay))
	// Several of one turn, of one model, too; amounts of zero have no counter.
	turn := counted(t, newSession(t, store, repo.NewSession{}), "1", use(to, "c", "z", 1), use(to, "c", "z", 2), use(to, "d", "z", 0), use(day, "c", "z", 4))
	if _, err := store.Sessions().AppendTurn(t.Context(), turn); err != nil || len(turn.State) != 9 {
		t.Errorf("%d changes, %v", len(turn.State), err)
	}
	wantRows(t, report(t, store, to, to, usage.ByModel)[1:], row("", "c", "", "", 2, 3), row("", "d", "", "", 1, 0))
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		rows, err := usage.Report(ctx, tx.State(), usage.Query{From: to, To: to})
		wantRows(t, rows, row("", "", "", "", 4, 19))
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A turn that is stored again is counted once, also under another name of its session, or under its id alone.
func testOnce(t *testing.T, store repo.Store) {
	id := newSession(t, store, repo.NewSession{Key: "k"})
	for i := range 20 {
		turn := counted(t, id, fmt.Sprint("turn ", i), use(day, "a", "x", 1))
		byKey := turn
		byKey.SessionID, byKey.Create, byKey.State = repo.ID{}, &repo.NewSession{Key: "k"}, nil
		if err := usage.Count(&byKey, use(day, "a", "x", 1)); err != nil {
			t.Fatal(err)
		}
		for _, attempt := range []repo.Turn{turn, turn, byKey} {
			if _, err := store.Sessions().AppendTurn(t.Context(), attempt); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantRows(t, report(t, store, day, day), row("", "", "", "", 20, 20))
}

// An attempt that takes another day is another turn, and refused. With Existing it is the same, and counts as before.
func testNextDay(t *testing.T, store repo.Store) {
	id := newSession(t, store, repo.NewSession{})
	if _, err := store.Sessions().AppendTurn(t.Context(), counted(t, id, "1", use(day, "a", "x", 1))); err != nil {
		t.Fatal(err)
	}
	again := counted(t, id, "1", use("2026-04-01", "a", "x", 1))
	var exists *repo.ExistsError
	if _, err := store.Sessions().AppendTurn(t.Context(), again); !errors.As(err, &exists) || exists.Kind != "turn" {
		t.Errorf("another day: %v", err)
	}
	again.Existing = true
	if added, err := store.Sessions().AppendTurn(t.Context(), again); err != nil || !added.Repeated {
		t.Errorf("%+v, %v", added, err)
	}
	wantRows(t, report(t, store, "2026-03-01", "2026-05-01", usage.ByDay), row(day, "", "", "", 1, 1))
}

// What is not stored is not counted.
func testRefused(t *testing.T, store repo.Store) {
	budget := repo.Cost(5)
	id := newSession(t, store, repo.NewSession{Budget: &budget})
	for i, cost := range []int64{3, 4, 2} {
		turn := counted(t, id, fmt.Sprint(i), use(day, "a", "x", cost))
		turn.Usage = &repo.NewUsage{Cost: repo.Cost(cost)}
		if _, err := store.Sessions().AppendTurn(t.Context(), turn); errors.Is(err, repo.ErrLimit) != (cost == 4) || err != nil && cost != 4 {
			t.Errorf("a cost of %d: %v", cost, err)
		}
	}
	wantRows(t, report(t, store, day, day), row("", "", "", "", 2, 5))
}

func testInvalid(t *testing.T, _ repo.Store) {
	for field, change := range map[string]func(*usage.Use){
		"used[1].day":     func(u *usage.Use) { u.Day = "" },
		"used[1].labels":  func(u *usage.Use) { u.Labels[0] = "a\x00b" },
		"used[1].labels ": func(u *usage.Use) { u.Model = "a\xffb" },
		"used[1].labels  ": func(u *usage.Use) {
			u.Model, u.Labels = strings.Repeat("/", 250), [2]string{strings.Repeat("~", 250), strings.Repeat("x", 9)}
		},
		"used[1].input_tokens":  func(u *usage.Use) { u.InputTokens = -1 },
		"used[1].output_tokens": func(u *usage.Use) { u.OutputTokens = -1 },
		"used[1].cost":          func(u *usage.Use) { u.Cost = -1 << 63 },
	} {
		good, bad := use(day, "a", "x", 1), use(day, "a", "x", 1)
		change(&bad)
		turn := repo.Turn{ID: "1", State: []repo.StateChange{{Key: "k"}}}
		err := usage.Count(&turn, good, bad)
		if invalid, is := errors.AsType[*repo.InvalidError](err); !is || invalid.Field != strings.TrimSpace(field) || len(turn.State) != 1 {
			t.Errorf("%s: %v; %d changes", field, err, len(turn.State))
		}
	}
	for _, bad := range []usage.Day{"today", "2026-02-29", "2026-3-1", "26-03-01", "2026-03-01 ", "0000-01-01", "12026-03-01", "2026-03-01T00:00:00Z"} {
		if err := usage.Count(&repo.Turn{}, use(bad, "a", "x", 1)); !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	// The largest names are stored. The memory of the caller is not written.
	spare := make([]repo.StateChange, 1, 100)
	turn := repo.Turn{ID: "1", State: spare}
	most := use(day, strings.Repeat("/", 250), strings.Repeat("x", 300), 1)
	most.Labels[1] = strings.Repeat("ä", 100)
	if err := usage.Count(&turn, most); err != nil || len(turn.State) != 5 || spare[:2][1].Key != "" || len(turn.State[2].Key) > 1024 || len(turn.State[3].Key) < 1000 {
		t.Errorf("%v; %d changes", err, len(turn.State))
	}
	if err := usage.Count(&turn, use(day, "a", "x", 1<<62), use(day, "a", "x", 1<<62)); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("a sum that is too large: %v", err)
	}
}

func testInvalidQueries(t *testing.T, store repo.Store) {
	for _, c := range []struct {
		field    string
		from, to usage.Day
		by       usage.Dimension
	}{
		{"from", "", day, usage.ByDay},
		{"to", day, "", usage.ByDay},
		{"to", day, "2026-03-30", usage.ByDay},
		{"from", "2016-03-01", day, usage.ByDay},
		{"by", day, day, "tenant"},
	} {
		_, err := usage.Report(t.Context(), store.State(), usage.Query{From: c.from, To: c.to, By: []usage.Dimension{c.by}})
		_, forget := usage.Forget(t.Context(), store.State(), c.from, c.to)
		_, scopes := usage.Scopes(c.from, c.to)
		for _, err := range []error{err, forget, scopes, usage.Fold(t.Context(), store.State(), c.from, c.to)} {
			if invalid, is := errors.AsType[*repo.InvalidError](err); c.field != "by" && (!is || invalid.Field != c.field) {
				t.Errorf("%s to %s: %v", c.from, c.to, err)
			}
		}
		if invalid, is := errors.AsType[*repo.InvalidError](err); !is || invalid.Field != c.field {
			t.Errorf("by %s: %v", c.by, err)
		}
	}
}

// count changes counters as turns would, in fewer calls.
func count(t *testing.T, store repo.Store, id string, used ...usage.Use) {
	t.Helper()
	for part := range slices.Chunk(used, 250) {
		if _, err := store.State().Change(t.Context(), counted(t, repo.NewID(), id, part...).State); err != nil {
			t.Fatal(err)
		}
	}
}

// A scope, and a day, have more counters than one read returns, and days around it few.
func testMany(t *testing.T, store repo.Store) {
	const models = 2600
	var used []usage.Use
	for i := range models {
		used = append(used, use(day, fmt.Sprintf("%04d", i), "x", 1))
	}
	count(t, store, "1", used...)
	count(t, store, "2", used[:7]...)
	add(t, store, use("2026-03-30", "a", "x", 1), use("2026-04-01", "a", "x", 2))
	sums := func() {
		t.Helper()
		wantRows(t, report(t, store, "2026-03-01", "2026-04-30", usage.ByDay), row("2026-03-30", "", "", "", 1, 1), row(day, "", "", "", models+7, models+7), row("2026-04-01", "", "", "", 1, 2))
		if rows := report(t, store, day, day, usage.ByModel); len(rows) != models || rows[6] != row("", "0006", "", "", 2, 2) || rows[7] != row("", "0007", "", "", 1, 1) {
			t.Errorf("there are %d models", len(rows))
		}
	}
	sums()
	if err := usage.Fold(t.Context(), store.State(), "2026-03-30", day); err != nil {
		t.Fatal(err)
	}
	sums()
	if counters, err := usage.Forget(t.Context(), store.State(), day, day); counters != 4*models || err != nil {
		t.Errorf("%d, %v", counters, err)
	}
	wantRows(t, report(t, store, "2026-03-01", "2026-04-30"), row("", "", "", "", 2, 3))
}

// Ten years, of which some days have counters.
func testLong(t *testing.T, store repo.Store) {
	first := time.Date(2016, 4, 1, 12, 0, 0, 0, time.UTC)
	var used []usage.Use
	var want []usage.Row
	for i := 0; i < usage.MaxDays; i += 61 {
		used = append(used, use(usage.DayOf(first.AddDate(0, 0, i), nil), "a", "x", int64(i)))
		want = append(want, row(used[len(used)-1].Day, "", "", "", 1, int64(i)))
	}
	count(t, store, "1", used...)
	wantRows(t, report(t, store, usage.DayOf(first, nil), usage.DayOf(first.AddDate(0, 0, usage.MaxDays-1), nil), usage.ByDay), want...)
}

func testFold(t *testing.T, store repo.Store) {
	id := newSession(t, store, repo.NewSession{})
	for i := range 40 {
		if _, err := store.Sessions().AppendTurn(t.Context(), counted(t, id, fmt.Sprint(i), use(day, "a", fmt.Sprint(i%2), 1), use("2026-04-01", "b", "x", 1))); err != nil {
			t.Fatal(err)
		}
		if i%10 == 5 { // turns that are late
			if err := usage.Fold(t.Context(), store.State(), "2026-03-01", day); err != nil {
				t.Fatal(err)
			}
		}
		want := []usage.Row{row(day, "", "0", "", int64(i/2+1), int64(i/2+1))}
		if i > 0 {
			want = append(want, row(day, "", "1", "", int64((i+1)/2), int64((i+1)/2)))
		}
		wantRows(t, report(t, store, day, day, usage.ByDay, usage.ByLabel1), want...)
	}
	for range 2 {
		if err := usage.Fold(t.Context(), store.State(), day, day); err != nil {
			t.Fatal(err)
		}
		if got := scopesWithKeys(t, store, day); got != 1 {
			t.Errorf("%d scopes of the day have counters", got)
		}
	}
	if got := scopesWithKeys(t, store, "2026-04-01"); got != 4 {
		t.Errorf("%d scopes of the day that was not folded have counters", got)
	}
}

func scopesWithKeys(t *testing.T, store repo.Store, day usage.Day) (found int) {
	t.Helper()
	names, err := usage.Scopes(day, day)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		list, err := store.State().List(t.Context(), repo.Scope{Name: name}, "", repo.Page{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Values) > 0 {
			found++
		}
	}
	return found
}

// meddled is a state in which something happens before each change.
type meddled struct {
	repo.State
	before func()
	// ignore drops the conditions of changes.
	ignore bool
}

func (m meddled) Change(ctx context.Context, changes []repo.StateChange, conditions ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
	m.before()
	if m.ignore {
		for i := range changes {
			changes[i].IfVersion = nil
		}
	}
	return m.State.Change(ctx, changes, conditions...)
}

// A turn that is stored between the look and the move is not lost. The naive way, which moves what it has seen, loses it.
func testFoldMeanwhile(t *testing.T, store repo.Store) {
	id := newSession(t, store, repo.NewSession{})
	stored := 0
	turn := func() {
		stored++
		if _, err := store.Sessions().AppendTurn(t.Context(), counted(t, id, fmt.Sprint(stored), use(day, "a", "x", 1))); err != nil {
			t.Fatal(err)
		}
	}
	ten := func() {
		for range 10 {
			turn()
		}
	}
	fold := func(always, ignore bool) {
		ten()
		first := true
		meddled := meddled{store.State(), func() {
			if always || first {
				ten()
			}
			first = false
		}, ignore}
		if err := usage.Fold(t.Context(), meddled, day, day); err != nil {
			t.Fatal(err)
		}
	}
	for _, always := range []bool{false, true} { // also if a counter never rests
		fold(always, false)
		wantRows(t, report(t, store, day, day), row("", "", "", "", int64(stored), int64(stored)))
	}
	fold(true, true)
	if rows := report(t, store, day, day); rows[0].Uses == int64(stored) {
		t.Error("the naive way lost nothing: this test would not find a loss")
	}
}

// Turns, folds and reports at once.
// Guarantee: Usage: Folding a day loses no count and adds none, beside turns and reports.
func testFoldRaces(t *testing.T, store repo.Store) {
	const sessions, turns = 4, 40
	var all sync.WaitGroup
	for range sessions {
		id := newSession(t, store, repo.NewSession{})
		all.Go(func() {
			for i := range turns {
				if _, err := store.Sessions().AppendTurn(t.Context(), counted(t, id, fmt.Sprint(i), use(day, "a", "x", 1))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for folder := range 3 {
		all.Go(func() {
			last := int64(0)
			for range turns {
				if folder > 0 {
					if err := usage.Fold(t.Context(), store.State(), day, day); err != nil {
						t.Error(err)
					}
					continue
				}
				rows, err := usage.Report(t.Context(), store.State(), usage.Query{From: "2026-03-01", To: day})
				switch {
				case err != nil:
					t.Error(err)
				case len(rows) == 0:
				case rows[0] != row("", "", "", "", rows[0].Uses, rows[0].Uses) || rows[0].Uses < last:
					t.Errorf("%+v after %d", rows[0], last)
				default:
					last = rows[0].Uses
				}
			}
		})
	}
	all.Wait()
	if err := usage.Fold(t.Context(), store.State(), day, day); err != nil {
		t.Error(err)
	}
	wantRows(t, report(t, store, day, day), row("", "", "", "", sessions*turns, sessions*turns))
}

func testForget(t *testing.T, store repo.Store) {
	add(t, store, use("2026-03-30", "a", "x", 1), use(day, "a", "x", 2), use(day, "b", "x", 2), use("2026-04-01", "a", "x", 4))
	if counters, err := usage.Forget(t.Context(), store.State(), "2026-01-01", day); counters != 12 || err != nil {
		t.Errorf("%d, %v", counters, err)
	}
	wantRows(t, report(t, store, "2026-01-01", "2026-12-31", usage.ByDay), row("2026-04-01", "", "", "", 1, 4))
	for range 2 {
		if counters, err := usage.Forget(t.Context(), store.State(), "2026-01-01", day); counters != 0 || err != nil {
			t.Errorf("again: %d, %v", counters, err)
		}
	}
	add(t, store, use(day, "a", "x", 8))
	wantRows(t, report(t, store, day, day), row("", "", "", "", 1, 8))
}

// Deleting a session, or rewinding it, leaves the sums.
func testDeleted(t *testing.T, store repo.Store) {
	id := newSession(t, store, repo.NewSession{})
	for i := range 3 {
		if _, err := store.Sessions().AppendTurn(t.Context(), counted(t, id, fmt.Sprint(i), use(day, "a", "x", 1))); err != nil {
			t.Fatal(err)
		}
	}
	after := int64(0)
	_, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, After: &after})
	_, failed := store.Sessions().Delete(t.Context(), id)
	if err := cmp.Or(err, failed); err != nil {
		t.Fatal(err)
	}
	wantRows(t, report(t, store, day, day), row("", "", "", "", 3, 3))
}

// Foreign keys in a scope are left out, and what is no counter is an error that names it.
func testNoCounters(t *testing.T, store repo.Store) {
	add(t, store, use(day, "a", "x", 1))
	names, err := usage.Scopes(day, day)
	if err != nil {
		t.Fatal(err)
	}
	set := func(key, value string) {
		if _, err := store.State().Change(t.Context(), []repo.StateChange{{Scope: repo.Scope{Name: names[0]}, Key: key, Value: []byte(value)}}); err != nil {
			t.Fatal(err)
		}
	}
	set("x", `"other"`)
	set(repo.JoinKey("cached_tokens", "a", "x", "chat"), `5`)
	wantRows(t, report(t, store, day, day), row("", "", "", "", 1, 1))
	for _, value := range []string{`"1"`, `1.5`, `-1`, `null`} {
		set(repo.JoinKey("cost", "a", "x", "chat"), value)
		_, err := usage.Report(t.Context(), store.State(), usage.Query{From: day, To: day})
		if refused, is := errors.AsType[*repo.RefusedError](err); !is || refused.Scope.Name != names[0] || refused.Name != "cost/a/x/chat" {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// A sum beyond 64 bits is an error, and not a negative amount.
func testTooLarge(t *testing.T, store repo.Store) {
	count(t, store, "1", usage.Use{Day: day, Usage: repo.Usage{Cost: 1<<63 - 1}})
	count(t, store, "1", usage.Use{Day: "2026-04-01", Usage: repo.Usage{Cost: 1}})
	if rows := report(t, store, day, "2026-04-01", usage.ByDay); len(rows) != 2 || rows[0].Cost != 1<<63-1 {
		t.Errorf("%+v", rows)
	}
	rows, err := usage.Report(t.Context(), store.State(), usage.Query{From: day, To: "2026-04-01"})
	if _, is := errors.AsType[*repo.RefusedError](err); !is || rows != nil {
		t.Errorf("%+v, %v", rows, err)
	}
}

// A context that has ended ends all.
func testEnded(t *testing.T, store repo.Store) {
	add(t, store, use(day, "a", "x", 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, report := usage.Report(ctx, store.State(), usage.Query{From: day, To: day})
	_, forget := usage.Forget(ctx, store.State(), day, day)
	for name, err := range maps.All(map[string]error{"report": report, "forget": forget, "fold": usage.Fold(ctx, store.State(), day, day)}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
