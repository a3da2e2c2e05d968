// Package directorytest tests package directory on a store.
package directorytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/directory"
	"github.com/seed-df90f812/agentstore/repo"
)

// Store is a store without sessions, and how what was active becomes older.
type Store struct {
	repo.Store

	Elapse func(time.Duration)
}

// Run tests the package, each test on a store of its own.
func Run(t *testing.T, open func(*testing.T) Store) {
	for name, test := range map[string]func(*world){
		"Edit": testEdit, "Turn": testTurn, "Read": testRead, "Invalid": testInvalid, "Foreign": testForeign, "List": testList, "Starred": testStarred,
		"Selected": testSelected, "Large": testLarge, "Moved": testMoved, "Appenders": testAppenders, "StarredMeanwhile": testStarredMeanwhile,
		"Races": testRaces, "Overtaken": testOvertaken, "Counts": testCounts, "Late": testLate, "Links": testLinks, "Stopped": testStopped, "Sweep": testSweep, "Ended": testEnded, "InTx": testInTx,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			d, err := directory.New(store, "ann")
			if err != nil {
				t.Fatal(err)
			}
			test(&world{t, d, store})
		})
	}
}

// world is the directory of Ann on a store.
type world struct {
	*testing.T
	*directory.Directory

	store Store
}

// create makes sessions of Ann's with a message each, the later ones active later.
func (w *world) create(count int) (ids []repo.ID) {
	w.Helper()
	for range count {
		turn := repo.Turn{SessionID: repo.NewID(), Create: &repo.NewSession{Owner: "ann"}, Messages: message(1)}
		if _, err := w.store.Sessions().AppendTurn(w.Context(), turn); err != nil {
			w.Fatal(err)
		}
		ids = append(ids, turn.SessionID)
	}
	return ids
}

func message(count int) []repo.NewMessage {
	return slices.Repeat([]repo.NewMessage{{Role: repo.RoleUser, Content: "question"}}, count)
}

func (w *world) append(ctx context.Context, id repo.ID) error {
	_, err := w.store.Sessions().Append(ctx, id, message(1)...)
	return err
}

func (w *world) set(id repo.ID, edit directory.Edit) {
	w.Helper()
	if _, err := w.Set(w.Context(), id, edit); err != nil {
		w.Fatal(err)
	}
}

// walk reads all pages, and calls between after each but the last.
func (w *world) walk(selection directory.Selection, limit int, between func()) (all []directory.Conversation, unsure bool) {
	w.Helper()
	for page := (repo.Page{Limit: limit}); ; {
		list, err := w.List(w.Context(), selection, page)
		if err != nil || len(list.Items) > limit || list.Unsure && list.Next != "" {
			w.Fatalf("%d items, unsure %t: %v", len(list.Items), list.Unsure, err)
		}
		all = append(all, list.Items...)
		if page.After = list.Next; page.After == "" {
			return all, list.Unsure
		}
		between()
	}
}

func nothing() {}

// want checks what a whole walk has, in its order.
func (w *world) want(selection directory.Selection, want ...repo.ID) {
	w.Helper()
	for _, limit := range []int{1, 2, 7, 1000} {
		all, unsure := w.walk(selection, limit, nothing)
		got := idsOf(all)
		if unsure || !slices.Equal(got, want) {
			w.Errorf("%+v in pages of %d: %v, unsure %t; want %v", selection, limit, got, unsure, want)
		}
	}
}

// idsOf returns the ids of what has not moved.
func idsOf(all []directory.Conversation) (ids []repo.ID) {
	for _, c := range all {
		if !c.Moved {
			ids = append(ids, c.Session.ID)
		}
	}
	return ids
}

func reversed(ids []repo.ID) []repo.ID {
	ids = slices.Clone(ids)
	slices.Reverse(ids)
	return ids
}

// get returns the conversation of a session.
func (w *world) get(id repo.ID) (found directory.Conversation) {
	w.Helper()
	for _, archived := range []bool{false, true} {
		all, _ := w.walk(directory.Selection{Archived: archived}, 1000, nothing)
		for _, c := range all {
			if c.Session.ID == id {
				found = c
			}
		}
	}
	return found
}

func testEdit(w *world) {
	id := w.create(2)[0]
	if c := w.get(id); c.Title != "" || c.Unread != 1 || c.Session.Owner != "ann" {
		w.Errorf("at first: %+v", c)
	}
	tags := []string{"work", "a/b~", "work"}
	for range 2 { // it may be repeated
		entry, err := w.Set(w.Context(), id, directory.Edit{Title: new("Über: a trip to ROME"), Starred: new(true), AddTags: tags})
		if err != nil || entry.Title != "Über: a trip to ROME" || !entry.Starred || entry.Archived || !slices.Equal(entry.Tags, []string{"a/b~", "work"}) {
			w.Errorf("%+v, %v", entry, err)
		}
	}
	tags[0] = "changed"
	w.set(id, directory.Edit{Archived: new(true), RemoveTags: []string{"work", "none"}})
	if c := w.get(id); c.Title != "Über: a trip to ROME" || !c.Starred || !c.Archived || !slices.Equal(c.Tags, []string{"a/b~"}) {
		w.Errorf("%+v", c)
	}
	w.want(directory.Selection{Archived: true, Words: "über rom"}, id)
	w.set(id, directory.Edit{Title: new(""), Starred: new(false), Archived: new(false), RemoveTags: []string{"a/b~"}})
	w.want(directory.Selection{Words: "rome"})
	w.want(directory.Selection{Tags: []string{"a/b~"}})
	if counts, err := w.Counts(w.Context()); err != nil || fmt.Sprint(counts) != "{1 0 0 map[]}" {
		w.Errorf("%+v, %v", counts, err)
	}
}

// A turn stores its title with its message, or neither, also one that creates its session, and once.
func testTurn(w *world) {
	turn := repo.Turn{SessionID: repo.NewID(), ID: "1", Existing: true, Create: &repo.NewSession{Owner: "ann"}, Messages: message(2)}
	turn.State = append(make([]repo.StateChange, 0, 99), repo.StateChange{Key: "own", Value: []byte("1")})
	edit := directory.Edit{Title: new("Named at once"), AddTags: []string{"t"}}
	for i := range 2 {
		appended, err := w.AppendTurn(w.Context(), turn, edit)
		if err != nil || appended.Repeated != (i == 1) || len(appended.Messages) != 2 || turn.State[:2][1].Key != "" {
			w.Errorf("%+v, %v", appended, err)
		}
	}
	w.want(directory.Selection{Words: "named"}, turn.SessionID)
	// A turn that is refused leaves the title.
	refused := repo.Turn{SessionID: turn.SessionID, Expected: new(int64(7)), Messages: message(1)}
	if _, err := w.AppendTurn(w.Context(), refused, directory.Edit{Title: new("Other")}); !errors.Is(err, repo.ErrConflict) {
		w.Errorf("%v", err)
	}
	// One whose entry has changed meanwhile is refused by itself, and made again by AppendTurn.
	changes, err := w.Changes(w.Context(), turn.SessionID, directory.Edit{Title: new("Late")})
	if err != nil {
		w.Fatal(err)
	}
	w.set(turn.SessionID, directory.Edit{Starred: new(true)})
	late := repo.Turn{SessionID: turn.SessionID, Messages: message(1), State: changes}
	if _, err := w.store.Sessions().AppendTurn(w.Context(), late); !errors.Is(err, repo.ErrConflict) {
		w.Errorf("%v", err)
	}
	if c := w.get(turn.SessionID); c.Title != "Named at once" || !c.Starred || c.Unread != 2 {
		w.Errorf("%+v", c)
	}
	if changes, err := w.Changes(w.Context(), turn.SessionID, edit); err != nil || len(changes) != 0 {
		w.Errorf("%d changes for nothing, %v", len(changes), err)
	}
}

func testRead(w *world) {
	id := w.create(1)[0]
	if _, err := w.store.Sessions().Append(w.Context(), id, message(4)...); err != nil {
		w.Fatal(err)
	}
	for _, c := range []struct{ next, read, unread int64 }{{0, 0, 5}, {3, 3, 2}, {1, 3, 2}, {3, 3, 2}, {5, 5, 0}} {
		entry, err := w.MarkRead(w.Context(), id, c.next)
		if got := w.get(id); err != nil || entry.Read != c.read || got.Read != c.read || got.Unread != c.unread {
			w.Errorf("%+v: %+v, %d, %v", c, entry, got.Unread, err)
		}
	}
	w.want(directory.Selection{Unread: true})
	if err := w.append(w.Context(), id); err != nil {
		w.Fatal(err)
	}
	w.want(directory.Selection{Unread: true}, id)
	for _, next := range []int64{-1, 7} {
		if _, err := w.MarkRead(w.Context(), id, next); !errors.Is(err, repo.ErrInvalid) {
			w.Errorf("%d: %v", next, err)
		}
	}
	w.set(id, directory.Edit{Title: new("read")})
	if c := w.get(id); c.Read != 5 || c.Title != "read" {
		w.Errorf("%+v", c)
	}
}

func testInvalid(w *world) {
	id := w.create(1)[0]
	many := make([]string, 21)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for field, edit := range map[string]directory.Edit{
		"title": {Title: new(strings.Repeat("x", 401))}, "title ": {Title: new("a\x00")}, "title  ": {Title: new("\xff")},
		"addTags": {AddTags: many}, "addTags ": {AddTags: []string{""}}, "addTags  ": {AddTags: []string{strings.Repeat("x", 101)}}, "removeTags": {RemoveTags: []string{"\xff"}},
	} {
		_, err := w.Set(w.Context(), id, edit)
		_, also := w.Changes(w.Context(), id, edit)
		for _, err := range []error{err, also} {
			if invalid, is := errors.AsType[*repo.InvalidError](err); !is || invalid.Field != strings.TrimSpace(field) {
				w.Errorf("%s: %v", field, err)
			}
		}
	}
	// The largest are stored.
	for i := range 20 {
		many[i] = strings.Repeat("/", 98) + fmt.Sprintf("%02d", i)
	}
	title := strings.Repeat("ä ", 133) + "x"
	for i := range 133 { // distinct words
		title = title[:3*i] + string(rune('a'+i%26)) + string(rune('a'+i/26)) + " " + title[3*i+3:]
	}
	w.set(id, directory.Edit{Title: &title, AddTags: many[:20]})
	w.want(directory.Selection{Tags: many[3:20], Words: "aa bb"}, id)
	for field, s := range map[string]directory.Selection{
		"tags": {Tags: []string{""}}, "tags ": {Tags: many}, "words": {Words: "a b c d e f g h i j k"}, "words ": {Words: "…"}, "words  ": {Words: "a\xff"},
	} {
		_, err := w.List(w.Context(), s, repo.Page{})
		if invalid, is := errors.AsType[*repo.InvalidError](err); !is || invalid.Field != strings.TrimSpace(field) {
			w.Errorf("%s: %v", field, err)
		}
	}
	first, err := w.List(w.Context(), directory.Selection{}, repo.Page{Limit: 1})
	if err != nil {
		w.Fatal(err)
	}
	for _, page := range []repo.Page{{Limit: -1}, {Limit: 1001}, {After: "x"}, {After: first.Next + "x"}} {
		_, err := w.List(w.Context(), directory.Selection{}, page)
		if invalid, is := errors.AsType[*repo.InvalidError](err); !is || !strings.HasPrefix(invalid.Field, "page.") {
			w.Errorf("%+v: %v", page, err)
		}
	}
	if _, err := directory.New(w.store, ""); !errors.Is(err, repo.ErrInvalid) {
		w.Error(err)
	}
	if _, err := directory.New(nil, "ann"); !errors.Is(err, repo.ErrInvalid) {
		w.Error(err)
	}
}

// What is another owner's is neither changed nor listed, and has the same answer as what does not exist.
func testForeign(w *world) {
	id := w.create(1)[0]
	w.set(id, directory.Edit{Title: new("mine"), Starred: new(true), AddTags: []string{"t"}})
	bob, err := directory.New(w.store, "bob")
	if err != nil {
		w.Fatal(err)
	}
	for _, of := range []repo.ID{id, repo.NewID()} {
		_, set := bob.Set(w.Context(), of, directory.Edit{Title: new("his")})
		_, read := bob.MarkRead(w.Context(), of, 1)
		_, turn := bob.AppendTurn(w.Context(), repo.Turn{SessionID: of, Messages: message(1)}, directory.Edit{Title: new("his")})
		for _, err := range []error{set, read, turn} {
			if !errors.Is(err, repo.ErrNotFound) {
				w.Error(err)
			}
		}
	}
	create := repo.Turn{SessionID: repo.NewID(), Create: &repo.NewSession{Owner: "ann"}, Messages: message(1)}
	if _, err := bob.AppendTurn(w.Context(), create, directory.Edit{Title: new("his")}); !errors.Is(err, repo.ErrInvalid) {
		w.Error(err)
	}
	for _, s := range []directory.Selection{{}, {StarredFirst: true}, {Starred: true}, {Tags: []string{"t"}}, {Words: "mine"}} {
		if list, err := bob.List(w.Context(), s, repo.Page{}); err != nil || len(list.Items) > 0 {
			w.Errorf("%+v: %+v, %v", s, list, err)
		}
	}
	if c := w.get(id); c.Title != "mine" || c.Session.MessageCount != 1 {
		w.Errorf("%+v", c)
	}
}

func testEnded(w *world) {
	id := w.create(1)[0]
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	_, changes := w.Changes(ctx, id, directory.Edit{Title: new("x")})
	_, set := w.Set(ctx, id, directory.Edit{Title: new("x")})
	_, read := w.MarkRead(ctx, id, 1)
	_, list := w.List(ctx, directory.Selection{}, repo.Page{})
	_, counts := w.Counts(ctx)
	_, scopes := w.Scopes(ctx)
	_, _, sweep := w.Sweep(ctx, repo.Page{})
	for i, err := range []error{changes, set, read, list, counts, scopes, sweep} {
		if !errors.Is(err, context.Canceled) {
			w.Errorf("%d: %v", i, err)
		}
	}
}

// A directory of a transaction sees what that has changed, and what is rolled back is gone.
func testInTx(w *world) {
	id, failed := w.create(1)[0], errors.New("rolled back")
	err := w.store.InTx(w.Context(), func(ctx context.Context, tx repo.Repositories) error {
		d, err := directory.New(tx, "ann")
		if err == nil {
			_, err = d.Set(ctx, id, directory.Edit{Starred: new(true)})
		}
		if err != nil {
			return err
		}
		list, err := d.List(ctx, directory.Selection{Starred: true}, repo.Page{})
		if err != nil || len(list.Items) != 1 {
			w.Errorf("%+v, %v", list, err)
		}
		return failed
	})
	if !errors.Is(err, failed) || w.get(id).Starred {
		w.Error(err)
	}
}

// Edits and marks of one conversation by many lose nothing, and the counters are exact.
func testRaces(w *world) {
	id := w.create(1)[0]
	if _, err := w.store.Sessions().Append(w.Context(), id, message(8)...); err != nil {
		w.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for _, err := range []error{
				again(func() error {
					_, err := w.Set(w.Context(), id, directory.Edit{AddTags: []string{fmt.Sprint("tag", i)}, Starred: new(i%2 == 0)})
					return err
				}),
				again(func() error {
					_, err := w.AppendTurn(w.Context(), repo.Turn{SessionID: id, ID: fmt.Sprint(i), Messages: message(1)}, directory.Edit{Title: new(fmt.Sprint("title ", i))})
					return err
				}),
				again(func() error { _, err := w.MarkRead(w.Context(), id, int64(9-i)); return err }),
			} {
				if err != nil {
					w.Error(err)
				}
			}
		})
	}
	all.Wait()
	c := w.get(id)
	counts, err := w.Counts(w.Context())
	stars := int64(0)
	if c.Starred {
		stars = 1
	}
	if err != nil || len(c.Tags) != 6 || c.Read != 9 || c.Session.MessageCount != 15 || counts.Entries != 1 || counts.Starred != stars || len(counts.Tags) != 6 {
		w.Errorf("%+v, %+v, %v", c, counts, err)
	}
	w.want(directory.Selection{Words: strings.TrimPrefix(c.Title, "title ")}, id)
	if list, err := w.List(w.Context(), directory.Selection{Words: "title"}, repo.Page{}); err != nil || len(list.Items) != 1 {
		w.Errorf("%+v, %v", list, err)
	}
}

// again repeats what others have overtaken ten times, as on a slow machine.
func again(do func() error) (err error) {
	for range 100 {
		if err = do(); !errors.Is(err, repo.ErrConflict) && !errors.Is(err, repo.ErrContention) {
			return err
		}
	}
	return err
}

// overtaken is a store on which something happens between the read and the change of the first call.
type overtaken struct {
	repo.Repositories

	before *sync.Once
	do     func()
}

type overtakenState struct {
	repo.State

	of overtaken
}

func (o overtaken) State() repo.State { return overtakenState{o.Repositories.State(), o} }

func (s overtakenState) Change(ctx context.Context, changes []repo.StateChange, conditions ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
	s.of.before.Do(s.of.do)
	return s.State.Change(ctx, changes, conditions...)
}

// A change that another one overtakes is decided again: an older window moves no mark back, and no edit is lost.
func testOvertaken(w *world) {
	id := w.create(1)[0]
	if _, err := w.store.Sessions().Append(w.Context(), id, message(4)...); err != nil {
		w.Fatal(err)
	}
	w.set(id, directory.Edit{Title: new("first")})
	slow := func(do func()) *directory.Directory {
		d, err := directory.New(overtaken{w.store, &sync.Once{}, do}, "ann")
		if err != nil {
			w.Fatal(err)
		}
		return d
	}
	mark := func(next int64) func() {
		return func() {
			if _, err := w.MarkRead(w.Context(), id, next); err != nil {
				w.Error(err)
			}
		}
	}
	for _, c := range []struct{ mine, others, want int64 }{{1, 2, 2}, {3, 5, 5}} { // without a mark, and over one
		entry, err := slow(mark(c.others)).MarkRead(w.Context(), id, c.mine)
		if got := w.get(id); err != nil || entry.Read != c.want || got.Read != c.want {
			w.Errorf("%+v: %+v, %d, %v", c, entry, got.Read, err)
		}
	}
	star := func() { w.set(id, directory.Edit{Starred: new(true), AddTags: []string{"t"}}) }
	entry, err := slow(star).Set(w.Context(), id, directory.Edit{Title: new("second")})
	if got := w.get(id); err != nil || !entry.Starred || got.Title != "second" || !got.Starred || len(got.Tags) != 1 {
		w.Errorf("%+v, %+v, %v", entry, got.Entry, err)
	}
}
