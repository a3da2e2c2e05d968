package repotest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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
		on("Namespaces", testNamespaces),
		onPlans("Bytes", testListBytes),
	}
}

// A page of any list ends before its items have 16 MiB, with one at least, and the next one goes on.
// Guarantee: Sessions: A page of any list ends before its items have 16 MiB together.
func testListBytes(t *testing.T, r repo.Repositories) {
	ctx, namespace, owner := t.Context(), spaceOf(r), randomName()
	const count, plans = 17, 9 // a plan has two texts
	text := json.RawMessage(`{"x":"` + strings.Repeat("x", repo.MaxMetadataBytes-8) + `"}`)
	scope, action := shared(), createAction(t, r, repo.ActionDefinition{Reusable: true, Arguments: []repo.Argument{{Name: "a", Type: repo.ArgumentString}}})
	actor := randomName()
	for n := range count {
		createAs(t, r.Sessions(), repo.NewSession{Namespace: namespace, Owner: owner, Metadata: text})
		change(t, r, set(scope, fmt.Sprint(n), string(text)))
		if n < plans {
			usePlan(t, r, action, repo.UseAction{Namespace: namespace, AutomationSnapshot: text, Arguments: []repo.ArgumentValue{{Name: "a", Value: text[5 : len(text)-1]}}})
		}
		must(t, n, r.Audit().Record(ctx, repo.AuditEntry{ID: repo.NewID(), OccurredAt: time.Now(), Type: "tool_invoked", Actor: actor, Details: text}))
	}
	sessions := func(filter repo.SessionFilter) func(repo.Page) (int, string, error) {
		filter.Namespace = namespace
		return func(page repo.Page) (int, string, error) {
			list, err := r.Sessions().List(ctx, filter, page)
			return len(list.Items), list.Next, err
		}
	}
	for name, list := range map[string]func(repo.Page) (int, string, error){
		"sessions": sessions(repo.SessionFilter{Owner: owner}), "by activity": sessions(repo.SessionFilter{Owner: owner, ByActivity: true}),
		"state": func(page repo.Page) (int, string, error) {
			list, err := r.State().List(ctx, scope, "", page)
			return len(list.Values), list.Next, err
		},
		"plans": func(page repo.Page) (int, string, error) {
			list, err := r.Plans().List(ctx, repo.PlanFilter{Action: action}, page)
			return 2 * len(list.Items), list.Next, err
		},
		"entries": func(page repo.Page) (int, string, error) {
			list, err := r.Audit().List(ctx, repo.AuditFilter{Actor: actor}, page)
			return len(list.Items), list.Next, err
		},
	} {
		all, pages := 0, 0
		for page := (repo.Page{Limit: 100}); ; pages++ {
			items, next, err := list(page)
			if must(t, items, err); items > 16 || items == 0 {
				t.Errorf("%s: a page has %d MiB", name, items)
			}
			all += items
			if page.After = next; next == "" {
				break
			}
		}
		if want := map[bool]int{true: 2 * plans, false: count}[name == "plans"]; all != want || pages == 0 {
			t.Errorf("%s: %d of %d items on %d pages", name, all, want, pages+1)
		}
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
		if len(got.Items) > limit {
			t.Fatalf("a page has %d sessions, the limit is %d", len(got.Items), limit)
		}
		all = append(all, got.Items...)
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
	page, err := s.List(t.Context(), repo.SessionFilter{AnyOwner: true, Namespace: randomName()}, repo.Page{})
	if err != nil || len(page.Items) != 0 || page.Next != "" {
		t.Errorf("an empty list is %+v, %v", page, err)
	}
}

func testListOrder(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
	var want []repo.Session
	for range 20 { // without pauses: some may have one time, and go by id
		want = append(want, createAs(t, s, repo.NewSession{Namespace: namespace}))
	}
	slices.SortFunc(want, newestFirst)
	wantList(t, walk(t, s, repo.SessionFilter{AnyOwner: true, Namespace: namespace}, 1000), want)
}

// A list contains the sessions as Get returns them.
func testListValues(t *testing.T, s repo.Sessions) {
	given := fullSession(s)
	createAs(t, s, given)
	appendTo(t, s, given.ID, users(3)...)
	if _, err := s.AddUsage(t.Context(), given.ID, repo.NewUsage{InputTokens: 1, OutputTokens: 2, Cost: 3}); err != nil {
		t.Fatal(err)
	}
	for _, actor := range []string{"", given.Actor} {
		list := walk(t, s, repo.SessionFilter{AnyOwner: true, Namespace: given.Namespace, Actor: actor}, 10)
		wantList(t, list, []repo.Session{get(t, s, given.ID)})
	}
}

func testListFilters(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
	all := seedList(t, s, namespace, "a", "b", "", "a", "A", "b")
	seedList(t, s, randomName(), "a", "") // another namespace
	middle, oldest := all[2].CreatedAt, all[5].CreatedAt
	for _, test := range []struct {
		name   string
		filter repo.SessionFilter
	}{
		{"namespace", repo.SessionFilter{AnyOwner: true}},
		{"actor", repo.SessionFilter{AnyOwner: true, Actor: "a"}},
		{"unknown actor", repo.SessionFilter{AnyOwner: true, Actor: "c"}},
		{"from", repo.SessionFilter{AnyOwner: true, CreatedFrom: middle}},
		{"from just after", repo.SessionFilter{AnyOwner: true, CreatedFrom: middle.Add(time.Microsecond)}},
		{"before", repo.SessionFilter{AnyOwner: true, CreatedBefore: middle}},
		{"before just after", repo.SessionFilter{AnyOwner: true, CreatedBefore: middle.Add(time.Microsecond)}},
		{"between", repo.SessionFilter{AnyOwner: true, CreatedFrom: oldest, CreatedBefore: middle}},
		{"nothing between", repo.SessionFilter{AnyOwner: true, CreatedFrom: middle, CreatedBefore: middle}},
		{"turned round", repo.SessionFilter{AnyOwner: true, CreatedFrom: middle, CreatedBefore: oldest}},
		{"actor and times", repo.SessionFilter{AnyOwner: true, Actor: "b", CreatedFrom: oldest, CreatedBefore: middle}},
		{"another zone", repo.SessionFilter{AnyOwner: true, CreatedFrom: middle.In(time.FixedZone("", 5400))}},
		{"years 1 to 9999", repo.SessionFilter{
			AnyOwner:    true,
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
		wantList(t, walk(t, s, repo.SessionFilter{AnyOwner: true, Namespace: namespace, Actor: actor}, 10), want)
	}
}

// A list contains every session once, whatever the size of its pages.
func testListPages(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
	actors := []string{"a", "b", "a", "a", "b", "a", "a"}
	all := seedList(t, s, namespace, actors...)
	ofA := slices.DeleteFunc(slices.Clone(all), func(session repo.Session) bool { return session.Actor != "a" })
	for limit := 1; limit <= len(all)+1; limit++ {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			wantList(t, walk(t, s, repo.SessionFilter{AnyOwner: true, Namespace: namespace}, limit), all)
			wantList(t, walk(t, s, repo.SessionFilter{AnyOwner: true, Namespace: namespace, Actor: "a"}, limit), ofA)
		})
	}
}

func testListDefaultLimit(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
	for range repo.DefaultPageSize + 1 {
		createAs(t, s, repo.NewSession{Namespace: namespace})
	}
	filter := repo.SessionFilter{AnyOwner: true, Namespace: namespace}
	page, err := s.List(t.Context(), filter, repo.Page{})
	if err != nil || len(page.Items) != repo.DefaultPageSize || page.Next == "" {
		t.Fatalf("the first page has %d sessions, the cursor %q, %v", len(page.Items), page.Next, err)
	}
	page, err = s.List(t.Context(), filter, repo.Page{After: page.Next})
	if err != nil || len(page.Items) != 1 || page.Next != "" {
		t.Errorf("the last page has %d sessions, the cursor %q, %v", len(page.Items), page.Next, err)
	}
}

func testListCursors(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
	all := seedList(t, s, namespace, "a", "a", "a")
	filter := repo.SessionFilter{AnyOwner: true, Namespace: namespace}
	first, err := s.List(t.Context(), filter, repo.Page{Limit: 1})
	if err != nil || first.Next == "" {
		t.Fatalf("the first page's cursor is %q, %v", first.Next, err)
	}
	for _, malformed := range []string{
		"x", " ", "\x00", "\xff", "null", first.Next + "x", first.Next[1:], first.Next[:len(first.Next)/2],
		first.Next + first.Next, " " + first.Next, first.Next + "\n", secret,
	} {
		_, err := s.List(t.Context(), filter, repo.Page{After: malformed})
		wantInvalid(t, err, "page.after")
	}
	for _, other := range []repo.SessionFilter{
		{AnyOwner: true, Namespace: randomName()},
		{AnyOwner: true},
		{AnyOwner: true, Namespace: namespace, Actor: "a"},
		{AnyOwner: true, Namespace: namespace, CreatedFrom: all[2].CreatedAt},
		{AnyOwner: true, Namespace: namespace, CreatedBefore: all[0].CreatedAt.Add(time.Hour)},
	} {
		_, err := s.List(t.Context(), other, repo.Page{After: first.Next})
		wantInvalid(t, err, "page.after")
	}
	// A cursor remains valid if its session is deleted.
	if _, err := s.Delete(t.Context(), first.Items[0].ID); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a cursor may be used again
		rest, err := s.List(t.Context(), filter, repo.Page{After: first.Next})
		if err != nil {
			t.Fatal(err)
		}
		wantList(t, rest.Items, all[1:])
	}
}

func testListLimitMayChange(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
	all := seedList(t, s, namespace, "", "", "", "")
	filter := repo.SessionFilter{AnyOwner: true, Namespace: namespace}
	first, err := s.List(t.Context(), filter, repo.Page{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := s.List(t.Context(), filter, repo.Page{Limit: repo.MaxPageSize, After: first.Next})
	if err != nil || rest.Next != "" {
		t.Fatalf("the rest's cursor is %q, %v", rest.Next, err)
	}
	wantList(t, append(first.Items, rest.Items...), all)
}

// Each namespace that has a session is there once, whatever the size of the pages.
func testNamespaces(t *testing.T, s repo.Sessions) {
	all := func(limit int) (found []string) {
		for page := (repo.Page{Limit: limit}); ; {
			list, err := s.Namespaces(t.Context(), page)
			if must(t, list, err); len(list.Items) > limit {
				t.Fatalf("a page of %d has %d namespaces", limit, len(list.Items))
			}
			found = append(found, list.Items...)
			if page.After = list.Next; list.Next == "" {
				return found
			}
		}
	}
	prefix := randomName()
	var want []string
	for _, name := range []string{"a", "a/b", "B", "~", "é"} {
		want = append(want, prefix+name)
		for range 2 {
			createAs(t, s, repo.NewSession{Namespace: prefix + name})
		}
	}
	gone := createAs(t, s, repo.NewSession{Namespace: prefix + "gone"})
	remove(t, s, gone.ID)
	slices.Sort(want)
	for _, limit := range []int{1, 2, 1000} {
		found := slices.DeleteFunc(all(limit), func(name string) bool { return !strings.HasPrefix(name, prefix) })
		if slices.Sort(found); !slices.Equal(found, want) {
			t.Errorf("pages of %d have %q, want %q", limit, found, want)
		}
	}
	_, err := s.Namespaces(t.Context(), repo.Page{Limit: -1})
	wantInvalid(t, err, "limit")
	sessions, err := s.List(t.Context(), repo.SessionFilter{AnyOwner: true, Namespace: want[0]}, repo.Page{Limit: 1})
	_, err = s.Namespaces(t.Context(), repo.Page{After: must(t, sessions, err).Next})
	wantInvalid(t, err, "page.after")
}
