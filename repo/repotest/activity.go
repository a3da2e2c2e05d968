package repotest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	documents "github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/repo"
)

func activityTests() []test {
	return []test{
		on("Order", testActivityOrder),
		on("Exact", testActivityExact),
		on("NeverBack", testActivityNeverBack),
		on("Pages", testActivityPages),
		on("Cursors", testActivityCursors),
		on("Invalid", testActivityInvalid),
		on("ActiveWhileReading", testActivityWhileReading),
	}
}

func byActivity(namespace string) repo.SessionFilter {
	return repo.SessionFilter{AnyOwner: true, Namespace: namespace, ByActivity: true}
}

// activeAgo imports a session that was last active that long ago.
func activeAgo(t *testing.T, s repo.Sessions, namespace string, ago time.Duration) repo.Session {
	t.Helper()
	at := time.Now().UTC().Truncate(time.Microsecond).Add(-ago)
	return activeAt(t, s, namespace, at)
}

func activeAt(t *testing.T, s repo.Sessions, namespace string, at time.Time) repo.Session {
	t.Helper()
	var document bytes.Buffer
	writer, err := documents.NewWriter(&document, repo.Session{
		ID: repo.NewID(), Namespace: namespace, Metadata: json.RawMessage(`{}`), CreatedAt: at.Add(-time.Hour), UpdatedAt: at,
	}, nil)
	if err == nil {
		err = writer.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return importFrom(t, s, &document)
}

func wantActivity(t *testing.T, s repo.Sessions, namespace string, want ...repo.ID) {
	t.Helper()
	var got []repo.ID
	for _, session := range walk(t, s, byActivity(namespace), 100) {
		got = append(got, session.ID)
		wantSession(t, session, get(t, s, session.ID))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the list is %v, want %v", got, want)
	}
}

// A session is active when it is created and when it is appended to, and not when it is
// updated or its usage is counted.
func testActivityOrder(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
	old, older := activeAgo(t, s, namespace, 2*time.Hour).ID, activeAgo(t, s, namespace, 3*time.Hour).ID
	recent := activeAgo(t, s, namespace, time.Hour).ID
	createAs(t, s, repo.NewSession{Namespace: randomName()})
	wantActivity(t, s, namespace, recent, old, older)
	update(t, s, older, repo.SessionUpdate{Actor: ptr("x")})
	addUsage(t, s, older, repo.NewUsage{InputTokens: 1})
	wantActivity(t, s, namespace, recent, old, older)
	appendTo(t, s, old, user("x"))
	wantActivity(t, s, namespace, old, recent, older)
	tick()
	created := createAs(t, s, repo.NewSession{Namespace: namespace}).ID
	wantActivity(t, s, namespace, created, old, recent, older)
	tick()
	if _, err := appendAt(t.Context(), s, older, 0, users(3)...); err != nil {
		t.Fatal(err)
	}
	wantActivity(t, s, namespace, older, created, old, recent)
	remove(t, s, created)
	wantActivity(t, s, namespace, older, old, recent)
}

// Each append moves its session to the front, also those of one minute, and pages of any
// size keep that order.
func testActivityExact(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
	var ids []repo.ID
	for range 5 {
		ids = append(ids, createAs(t, s, repo.NewSession{Namespace: namespace}).ID)
		tick()
	}
	activeAgo(t, s, namespace, time.Hour)
	for _, i := range []int{2, 0, 4, 2, 3, 1, 0} {
		appendTo(t, s, ids[i], user("x"))
		tick()
	}
	for limit := 1; limit <= 7; limit++ {
		found := walk(t, s, byActivity(namespace), limit)
		if len(found) != 6 {
			t.Fatalf("limit %d: %d sessions", limit, len(found))
		}
		for i, want := range []repo.ID{ids[0], ids[1], ids[3], ids[2], ids[4]} {
			if found[i].ID != want {
				t.Errorf("limit %d: session %d is another", limit, i)
			}
		}
	}
}

// A session that is imported with a time ahead of the clock stays where it is.
func testActivityNeverBack(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
	ahead, other := activeAgo(t, s, namespace, -time.Hour).ID, activeAgo(t, s, namespace, time.Hour).ID
	appendTo(t, s, ahead, user("x"))
	tick()
	appendTo(t, s, other, user("x"))
	wantActivity(t, s, namespace, ahead, other)
}

// Sessions of one time are ordered by id. A list contains each once, whatever the size
// of its pages.
func testActivityPages(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
	var want []repo.Session
	at := time.Now().UTC().Truncate(time.Microsecond).Add(-time.Hour)
	for i := range 7 {
		want = append(want, activeAt(t, s, namespace, at.Add(-time.Duration(i/3)*time.Microsecond)))
	}
	slices.SortFunc(want, func(a, b repo.Session) int {
		if order := b.UpdatedAt.Compare(a.UpdatedAt); order != 0 {
			return order
		}
		return b.ID.Compare(a.ID)
	})
	for limit := 1; limit <= len(want)+1; limit++ {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			wantList(t, walk(t, s, byActivity(namespace), limit), want)
		})
	}
}

func testActivityCursors(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
	for i := range 3 {
		activeAgo(t, s, namespace, time.Duration(i+1)*time.Hour)
	}
	active, created := byActivity(namespace), repo.SessionFilter{AnyOwner: true, Namespace: namespace}
	ofOwner := active
	ofOwner.Owner, ofOwner.AnyOwner = "owner", false
	for _, test := range []struct{ of, used repo.SessionFilter }{
		{active, created}, {created, active}, {active, byActivity(randomName())}, {active, ofOwner},
	} {
		page, err := s.List(t.Context(), test.of, repo.Page{Limit: 1})
		if err != nil || page.Next == "" {
			t.Fatalf("the cursor is %q, %v", page.Next, err)
		}
		_, err = s.List(t.Context(), test.used, repo.Page{After: page.Next})
		wantInvalid(t, err, "page.after")
	}
	// A cursor remains valid if its session is deleted.
	all := walk(t, s, active, 10)
	page, err := s.List(t.Context(), active, repo.Page{Limit: 1})
	must(t, page, err)
	remove(t, s, all[0].ID)
	rest, err := s.List(t.Context(), active, repo.Page{After: page.Next})
	wantList(t, must(t, rest, err).Items, all[1:])
}

func testActivityInvalid(t *testing.T, s repo.Sessions) {
	for field, filter := range map[string]repo.SessionFilter{
		"namespace":      {AnyOwner: true, ByActivity: true, Namespace: tooLong()},
		"owner":          {ByActivity: true, Owner: secret + "\x00"},
		"actor":          {AnyOwner: true, ByActivity: true, Actor: secret},
		"created_from":   {AnyOwner: true, ByActivity: true, CreatedFrom: time.Now()},
		"created_before": {AnyOwner: true, ByActivity: true, CreatedBefore: time.Now()},
	} {
		_, err := s.List(t.Context(), filter, repo.Page{})
		wantInvalid(t, err, field)
	}
	_, err := s.List(t.Context(), repo.SessionFilter{AnyOwner: true, ByActivity: true}, repo.Page{Limit: -1})
	wantInvalid(t, err, "limit")
}

// What becomes active while a list is read is missing if it was not read yet, is never
// there twice, and is first in the next list.
func testActivityWhileReading(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
	var ids []repo.ID // last active first
	for i := range 6 {
		ids = append(ids, activeAgo(t, s, namespace, time.Duration(i+1)*time.Hour).ID)
	}
	page, err := s.List(t.Context(), byActivity(namespace), repo.Page{Limit: 2})
	must(t, page, err)
	appendTo(t, s, ids[0], user("was read"))
	tick()
	appendTo(t, s, ids[4], user("was not"))
	var got []repo.ID
	for page.Next != "" {
		page, err = s.List(t.Context(), byActivity(namespace), repo.Page{Limit: 2, After: page.Next})
		for _, session := range must(t, page, err).Items {
			got = append(got, session.ID)
		}
	}
	if want := []repo.ID{ids[2], ids[3], ids[5]}; !slices.Equal(got, want) {
		t.Errorf("the rest of the list is %v, want %v", got, want)
	}
	wantActivity(t, s, namespace, ids[4], ids[0], ids[1], ids[2], ids[3], ids[5])
}

// While others append and create, every walk contains no session twice, and every
// session that is not active.
func testConcurrentActivity(t *testing.T, store repo.Store) {
	s, namespace := store.Sessions(), spaceOf(store)
	var idle, active []repo.ID
	for i := range 20 {
		idle = append(idle, activeAgo(t, s, namespace, time.Duration(2*i+1)*time.Hour).ID)
		active = append(active, activeAgo(t, s, namespace, time.Duration(2*i+2)*time.Hour).ID)
	}
	together(3, func(worker int) {
		switch worker {
		case 0:
			for _, id := range active {
				if _, err := s.Append(t.Context(), id, user("x")); err != nil {
					t.Errorf("Append: %v", err)
				}
			}
		case 1:
			for range 20 {
				if _, err := s.Create(t.Context(), repo.NewSession{Namespace: namespace}); err != nil {
					t.Errorf("Create: %v", err)
				}
			}
		case 2:
			for range 5 {
				seen := map[repo.ID]bool{}
				for page := (repo.Page{Limit: 3}); ; {
					list, err := s.List(t.Context(), byActivity(namespace), page)
					if err != nil {
						t.Errorf("List: %v", err)
						return
					}
					for _, session := range list.Items {
						if seen[session.ID] {
							t.Errorf("session %s is in the list twice", session.ID)
						}
						seen[session.ID] = true
					}
					if page.After = list.Next; list.Next == "" {
						break
					}
				}
				for _, id := range idle {
					if !seen[id] {
						t.Errorf("session %s was not active, and is not in the list", id)
					}
				}
			}
		}
	})
}
