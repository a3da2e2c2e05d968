package repotest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

func listTests() []test {
	return []test{
		on("Empty", testListEmpty),
		on("Order", testListOrder),
		on("Values", testListValues),
		on("Filters", testListFilters),
		on("DefaultNamespace", testListDefaultNamespace),
		on("Pages", testListPages),
		on("DefaultLimit", testListDefaultLimit),
		on("Cursors", testListCursors),
		on("LimitMayChange", testListLimitMayChange),
	}
}

// seedList creates sessions in a namespace, with different times, and returns them
// newest first.
func seedList(t *testing.T, s repo.Sessions, namespace string, actors ...string) []repo.Session {
	t.Helper()
	var sessions []repo.Session
	for _, actor := range actors {
		sessions = append(sessions, createAs(t, s, repo.NewSession{Namespace: namespace, Actor: actor}))
		tick()
	}
	slices.SortFunc(sessions, newestFirst)
	return sessions
}

func newestFirst(a, b repo.Session) int {
	if order := b.CreatedAt.Compare(a.CreatedAt); order != 0 {
		return order
	}
	return b.ID.Compare(a.ID)
}

// walk reads a list to its end.
func walk(t *testing.T, s repo.Sessions, filter repo.SessionFilter, limit int) []repo.Session {
	t.Helper()
	var all []repo.Session
	for page := (repo.Page{Limit: limit}); ; {
		got, err := s.List(t.Context(), filter, page)
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		if len(got.Sessions) > limit {
			t.Fatalf("a page has %d sessions, the limit is %d", len(got.Sessions), limit)
		}
		all = append(all, got.Sessions...)
		if got.Next == "" {
			return all
		}
		page.After = got.Next
	}
}

func wantList(t *testing.T, got, want []repo.Session) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("the list has %d sessions, want %d", len(got), len(want))
		return
	}
	for i := range got {
		wantSession(t, got[i], want[i])
	}
}

func testListEmpty(t *testing.T, s repo.Sessions) {
	page, err := s.List(t.Context(), repo.SessionFilter{Namespace: randomName()}, repo.Page{})
	if err != nil || len(page.Sessions) != 0 || page.Next != "" {
		t.Errorf("an empty list is %+v, %v", page, err)
	}
}

func testListOrder(t *testing.T, s repo.Sessions) {
	namespace := randomName()
	var want []repo.Session
	for range 20 { // without pauses: some may have one time, and go by id
		want = append(want, createAs(t, s, repo.NewSession{Namespace: namespace}))
	}
	slices.SortFunc(want, newestFirst)
	wantList(t, walk(t, s, repo.SessionFilter{Namespace: namespace}, 1000), want)
}

// A list contains the sessions as Get returns them.
func testListValues(t *testing.T, s repo.Sessions) {
	given := fullSession()
	createAs(t, s, given)
	appendTo(t, s, given.ID, users(3)...)
	if _, err := s.AddUsage(t.Context(), given.ID, repo.NewUsage{InputTokens: 1, OutputTokens: 2, Cost: 3}); err != nil {
		t.Fatal(err)
	}
	for _, actor := range []string{"", given.Actor} {
		list := walk(t, s, repo.SessionFilter{Namespace: given.Namespace, Actor: actor}, 10)
		wantList(t, list, []repo.Session{get(t, s, given.ID)})
	}
}

func testListFilters(t *testing.T, s repo.Sessions) {
	namespace := randomName()
	all := seedList(t, s, namespace, "a", "b", "", "a", "A", "b")
	seedList(t, s, randomName(), "a", "") // another namespace
	middle, oldest := all[2].CreatedAt, all[5].CreatedAt
	for _, test := range []struct {
		name   string
		filter repo.SessionFilter
	}{
		{"namespace", repo.SessionFilter{}},
		{"actor", repo.SessionFilter{Actor: "a"}},
		{"unknown actor", repo.SessionFilter{Actor: "c"}},
		{"from", repo.SessionFilter{CreatedFrom: middle}},
		{"from just after", repo.SessionFilter{CreatedFrom: middle.Add(time.Microsecond)}},
		{"before", repo.SessionFilter{CreatedBefore: middle}},
		{"before just after", repo.SessionFilter{CreatedBefore: middle.Add(time.Microsecond)}},
		{"between", repo.SessionFilter{CreatedFrom: oldest, CreatedBefore: middle}},
		{"nothing between", repo.SessionFilter{CreatedFrom: middle, CreatedBefore: middle}},
		{"turned round", repo.SessionFilter{CreatedFrom: middle, CreatedBefore: oldest}},
		{"actor and times", repo.SessionFilter{Actor: "b", CreatedFrom: oldest, CreatedBefore: middle}},
		{"another zone", repo.SessionFilter{CreatedFrom: middle.In(time.FixedZone("", 5400))}},
		{"years 1 to 9999", repo.SessionFilter{
			CreatedFrom: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), CreatedBefore: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			filter := test.filter
			filter.Namespace = namespace
			want := slices.DeleteFunc(slices.Clone(all), func(session repo.Session) bool {
				return filter.Actor != "" && session.Actor != filter.Actor ||
					session.CreatedAt.Before(filter.CreatedFrom) ||
					!filter.CreatedBefore.IsZero() && !session.CreatedAt.Before(filter.CreatedBefore)
			})
			for _, limit := range []int{1, 1000} {
				wantList(t, walk(t, s, filter, limit), want)
			}
		})
	}
}

func testListDefaultNamespace(t *testing.T, s repo.Sessions) {
	actor := randomName()
	want := []repo.Session{createAs(t, s, repo.NewSession{Actor: actor})}
	createAs(t, s, repo.NewSession{Actor: actor, Namespace: randomName()})
	for _, namespace := range []string{"", repo.DefaultNamespace} {
		wantList(t, walk(t, s, repo.SessionFilter{Namespace: namespace, Actor: actor}, 10), want)
	}
}

// A list contains every session once, whatever the size of its pages.
func testListPages(t *testing.T, s repo.Sessions) {
	namespace := randomName()
	actors := []string{"a", "b", "a", "a", "b", "a", "a"}
	all := seedList(t, s, namespace, actors...)
	ofA := slices.DeleteFunc(slices.Clone(all), func(session repo.Session) bool { return session.Actor != "a" })
	for limit := 1; limit <= len(all)+1; limit++ {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			wantList(t, walk(t, s, repo.SessionFilter{Namespace: namespace}, limit), all)
			wantList(t, walk(t, s, repo.SessionFilter{Namespace: namespace, Actor: "a"}, limit), ofA)
		})
	}
}

func testListDefaultLimit(t *testing.T, s repo.Sessions) {
	namespace := randomName()
	for range repo.DefaultPageSize + 1 {
		createAs(t, s, repo.NewSession{Namespace: namespace})
	}
	filter := repo.SessionFilter{Namespace: namespace}
	page, err := s.List(t.Context(), filter, repo.Page{})
	if err != nil || len(page.Sessions) != repo.DefaultPageSize || page.Next == "" {
		t.Fatalf("the first page has %d sessions, the cursor %q, %v", len(page.Sessions), page.Next, err)
	}
	page, err = s.List(t.Context(), filter, repo.Page{After: page.Next})
	if err != nil || len(page.Sessions) != 1 || page.Next != "" {
		t.Errorf("the last page has %d sessions, the cursor %q, %v", len(page.Sessions), page.Next, err)
	}
}

func testListCursors(t *testing.T, s repo.Sessions) {
	namespace := randomName()
	all := seedList(t, s, namespace, "a", "a", "a")
	filter := repo.SessionFilter{Namespace: namespace}
	first, err := s.List(t.Context(), filter, repo.Page{Limit: 1})
	if err != nil || first.Next == "" {
		t.Fatalf("the first page's cursor is %q, %v", first.Next, err)
	}
	for _, malformed := range []repo.Cursor{
		"x", " ", "\x00", "\xff", "null", first.Next + "x", first.Next[1:], first.Next[:len(first.Next)/2],
		first.Next + first.Next, " " + first.Next, first.Next + "\n", secret,
	} {
		_, err := s.List(t.Context(), filter, repo.Page{After: malformed})
		wantInvalid(t, err, "page.after")
	}
	for _, other := range []repo.SessionFilter{
		{Namespace: randomName()},
		{},
		{Namespace: namespace, Actor: "a"},
		{Namespace: namespace, CreatedFrom: all[2].CreatedAt},
		{Namespace: namespace, CreatedBefore: all[0].CreatedAt.Add(time.Hour)},
	} {
		_, err := s.List(t.Context(), other, repo.Page{After: first.Next})
		wantInvalid(t, err, "page.after")
	}
	// A cursor remains valid if its session is deleted.
	if _, err := s.Delete(t.Context(), first.Sessions[0].ID); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a cursor may be used again
		rest, err := s.List(t.Context(), filter, repo.Page{After: first.Next})
		if err != nil {
			t.Fatal(err)
		}
		wantList(t, rest.Sessions, all[1:])
	}
}

func testListLimitMayChange(t *testing.T, s repo.Sessions) {
	namespace := randomName()
	all := seedList(t, s, namespace, "", "", "", "")
	filter := repo.SessionFilter{Namespace: namespace}
	first, err := s.List(t.Context(), filter, repo.Page{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := s.List(t.Context(), filter, repo.Page{Limit: repo.MaxPageSize, After: first.Next})
	if err != nil || rest.Next != "" {
		t.Fatalf("the rest's cursor is %q, %v", rest.Next, err)
	}
	wantList(t, append(first.Sessions, rest.Sessions...), all)
}
