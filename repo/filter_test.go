package repo_test

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

func TestSessionFilterRules(t *testing.T) {
	check := func(name, field, want string, filter repo.SessionFilter) {
		t.Run(field+"/"+name, func(t *testing.T) {
			_, err := filter.Normalize()
			wantInvalid(t, err, fieldIf(want, field), want)
		})
	}
	for name, text := range texts(repo.MaxNameBytes) {
		check(name, "namespace", text.want, repo.SessionFilter{Namespace: text.value})
		check(name, "actor", text.want, repo.SessionFilter{Actor: text.value})
	}
	late := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	check("too late", "created_from", "not between", repo.SessionFilter{CreatedFrom: late})
	check("too late", "created_before", "not between", repo.SessionFilter{CreatedBefore: late})

	got, err := repo.SessionFilter{
		CreatedFrom:   time.Date(2026, 1, 1, 1, 0, 0, 1999, time.FixedZone("", 3600)),
		CreatedBefore: time.Date(2026, 1, 2, 1, 0, 0, 1999, time.FixedZone("", 3600)),
	}.Normalize()
	want := repo.SessionFilter{
		Namespace:     repo.DefaultNamespace,
		CreatedFrom:   time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC),
		CreatedBefore: time.Date(2026, 1, 2, 0, 0, 0, 1000, time.UTC),
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestCursors(t *testing.T) {
	normalize := func(filter repo.SessionFilter) repo.SessionFilter {
		t.Helper()
		normal, err := filter.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		return normal
	}
	created := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	filter := normalize(repo.SessionFilter{Actor: "a", CreatedFrom: created})
	last := repo.Session{ID: repo.NewID(), CreatedAt: created}
	cursor := filter.CursorAfter(last)

	at, id, err := filter.Place(cursor)
	if err != nil || !at.Equal(created) || id != last.ID {
		t.Errorf("the place is %v %v, %v", at, id, err)
	}
	// The same moment in another zone, and the default namespace by its name,
	// are the same filter.
	same := normalize(repo.SessionFilter{Namespace: "local", Actor: "a", CreatedFrom: created.In(time.FixedZone("", 3600))})
	if _, _, err := same.Place(cursor); err != nil {
		t.Error(err)
	}
	for name, other := range map[string]repo.SessionFilter{
		"namespace": {Namespace: "other", Actor: "a", CreatedFrom: created},
		"actor":     {CreatedFrom: created},
		"from":      {Actor: "a", CreatedFrom: created.Add(time.Microsecond)},
		"before":    {Actor: "a", CreatedFrom: created, CreatedBefore: created},
		"swapped":   {Actor: "a", CreatedBefore: created},
	} {
		_, _, err := normalize(other).Place(cursor)
		t.Run(name, func(t *testing.T) { wantInvalid(t, err, "page.after", "another filter") })
	}
	for _, text := range []repo.Cursor{"x", "SECRET", cursor[1:], cursor + "A"} {
		_, _, err := filter.Place(text)
		wantInvalid(t, err, "page.after", "not a cursor")
	}

	// No cursor: before the newest session that there can be.
	at, _, err = filter.Place("")
	if err != nil || !at.After(time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)) {
		t.Errorf("the first page begins at %v, %v", at, err)
	}
}
