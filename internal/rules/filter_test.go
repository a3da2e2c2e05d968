package rules_test

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func TestSessionFilterRules(t *testing.T) {
	check := func(name, field, want string, filter repo.SessionFilter) {
		t.Run(field+"/"+name, func(t *testing.T) {
			_, err := rules.SessionList(filter, repo.Page{})
			wantInvalid(t, err, fieldIf(want, field), want)
		})
	}
	for name, text := range texts(repo.MaxNameBytes) {
		check(name, "namespace", text.want, repo.SessionFilter{AnyOwner: true, Namespace: text.value})
		check(name, "actor", text.want, repo.SessionFilter{AnyOwner: true, Actor: text.value})
	}
	for name, text := range texts(limits.MaxUserIDBytes) {
		check(name, "owner", text.want, repo.SessionFilter{Owner: text.value, AnyOwner: text.value == ""})
	}
	late := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	check("too late", "created_from", "not between", repo.SessionFilter{AnyOwner: true, CreatedFrom: late})
	check("too late", "created_before", "not between", repo.SessionFilter{AnyOwner: true, CreatedBefore: late})

	list, err := rules.SessionList(repo.SessionFilter{
		AnyOwner:      true,
		CreatedFrom:   time.Date(2026, 1, 1, 1, 0, 0, 1999, time.FixedZone("", 3600)),
		CreatedBefore: time.Date(2026, 1, 2, 1, 0, 0, 1999, time.FixedZone("", 3600)),
	}, repo.Page{})
	want := repo.SessionFilter{
		AnyOwner:      true,
		Namespace:     repo.DefaultNamespace,
		CreatedFrom:   time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC),
		CreatedBefore: time.Date(2026, 1, 2, 0, 0, 0, 1000, time.UTC),
	}
	if err != nil || list.Filter != want {
		t.Errorf("got %+v, %v, want %+v", list.Filter, err, want)
	}
}

func TestCursors(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	filter := repo.SessionFilter{AnyOwner: true, Actor: "a", CreatedFrom: created}
	last := repo.Session{ID: repo.NewID(), CreatedAt: created}
	first, err := rules.SessionList(filter, repo.Page{})
	if err != nil {
		t.Fatal(err)
	}
	cursor := first.Next(last)

	list, err := rules.SessionList(filter, repo.Page{After: cursor})
	if err != nil || !list.After.CreatedAt.Equal(created) || list.After.ID != last.ID {
		t.Errorf("the place is %v, %v", list.After, err)
	}
	// The same moment in another zone, and the explicit default namespace, make the
	// same filter.
	same := repo.SessionFilter{AnyOwner: true, Namespace: "local", Actor: "a", CreatedFrom: created.In(time.FixedZone("", 3600))}
	if _, err := rules.SessionList(same, repo.Page{After: cursor}); err != nil {
		t.Error(err)
	}
	for name, other := range map[string]repo.SessionFilter{
		"namespace": {AnyOwner: true, Namespace: "other", Actor: "a", CreatedFrom: created},
		"actor":     {AnyOwner: true, CreatedFrom: created},
		"owner":     {Actor: "a", Owner: "o", CreatedFrom: created},
		"from":      {AnyOwner: true, Actor: "a", CreatedFrom: created.Add(time.Microsecond)},
		"before":    {AnyOwner: true, Actor: "a", CreatedFrom: created, CreatedBefore: created},
		"swapped":   {AnyOwner: true, Actor: "a", CreatedBefore: created},
	} {
		_, err := rules.SessionList(other, repo.Page{After: cursor})
		t.Run(name, func(t *testing.T) { wantInvalid(t, err, "page.after", "another filter") })
	}
	for _, text := range []string{"x", "SECRET", cursor[:len(cursor)-4], cursor + "A"} {
		_, err := rules.SessionList(filter, repo.Page{After: text})
		wantInvalid(t, err, "page.after", "not a cursor")
	}

	// No cursor: before the newest possible session.
	if at := first.After.CreatedAt; !at.After(time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)) {
		t.Errorf("the first page begins at %v", at)
	}
}
