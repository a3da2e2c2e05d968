package directorytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-df90f812/agentstore/directory"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/share"
)

// The order is by activity, those that are starred first if that is wanted, and links are left out.
func testList(w *world) {
	w.want(directory.Selection{})
	ids := w.create(9)
	w.store.Elapse(time.Hour)
	w.want(directory.Selection{}, reversed(ids)...)
	for _, id := range []repo.ID{ids[2], ids[0]} {
		if err := w.append(w.Context(), id); err != nil {
			w.Fatal(err)
		}
		w.store.Elapse(time.Second)
	}
	ids = append([]repo.ID{ids[1]}, append(ids[3:], ids[2], ids[0])...)
	w.store.Elapse(time.Hour)
	w.want(directory.Selection{}, reversed(ids)...)
	links, err := share.New(w.store)
	if err != nil {
		w.Fatal(err)
	}
	for range 3 {
		if _, _, err := links.Create(w.Context(), ids[4], 0, time.Hour); err != nil {
			w.Fatal(err)
		}
	}
	w.store.Elapse(time.Hour)
	w.want(directory.Selection{}, reversed(ids)...)
	w.set(ids[8], directory.Edit{Archived: new(true)})
	w.want(directory.Selection{}, reversed(ids[:8])...)
	w.want(directory.Selection{Archived: true}, ids[8])
}

func testStarred(w *world) {
	ids := w.create(9)
	w.want(directory.Selection{StarredFirst: true}, reversed(ids)...)
	for _, i := range []int{1, 4, 6} {
		w.set(ids[i], directory.Edit{Starred: new(true)})
	}
	w.set(ids[4], directory.Edit{Archived: new(true)})
	w.store.Elapse(time.Hour)
	w.want(directory.Selection{StarredFirst: true}, ids[6], ids[1], ids[8], ids[7], ids[5], ids[3], ids[2], ids[0])
	w.want(directory.Selection{Starred: true}, ids[6], ids[1])
	// As many as are looked at to see the front.
	all, unsure := w.walk(directory.Selection{StarredFirst: true}, 8, nothing)
	if got := idsOf(all); len(got) != 8 || unsure {
		w.Errorf("%v, unsure %t", got, unsure)
	}
	w.want(directory.Selection{Archived: true, StarredFirst: true}, ids[4])
}

func testSelected(w *world) {
	ids := w.create(12)
	for i, id := range ids {
		edit := directory.Edit{Title: new(fmt.Sprintf("Trip %d to %s", i, []string{"Rome", "Romania", "Paris"}[i%3])), AddTags: []string{fmt.Sprint("m", i%2)}}
		if i%4 == 0 {
			edit.AddTags = append(edit.AddTags, "four")
		}
		w.set(id, edit)
	}
	w.store.Elapse(time.Hour)
	pick := func(keep func(i int) bool) (picked []repo.ID) {
		for i, id := range slices.Backward(ids) {
			if keep(i) {
				picked = append(picked, id)
			}
		}
		return picked
	}
	w.want(directory.Selection{Tags: []string{"m1"}}, pick(func(i int) bool { return i%2 == 1 })...)
	w.want(directory.Selection{Tags: []string{"four", "m0"}}, pick(func(i int) bool { return i%4 == 0 })...)
	w.want(directory.Selection{Tags: []string{"four", "m1"}})
	w.want(directory.Selection{Tags: []string{"m"}})
	w.want(directory.Selection{Words: "rom"}, pick(func(i int) bool { return i%3 < 2 })...)
	w.want(directory.Selection{Words: "ROMA trip"}, pick(func(i int) bool { return i%3 == 1 })...)
	w.want(directory.Selection{Words: "1"}, pick(func(i int) bool { return i == 1 || i > 9 })...)
	w.want(directory.Selection{Words: "trip", Tags: []string{"four"}, Unread: true}, pick(func(i int) bool { return i%4 == 0 })...)
	w.want(directory.Selection{Words: "ome"})
	for _, c := range [][2]string{{"ΟΔΟΣ", "οδος"}, {"οδος", "ΟΔΟΣ"}, {"\u212aelvin", "kelvin"}, {strings.Repeat("Ⱥ", 200), strings.Repeat("ⱥ", 133)}} {
		w.set(ids[0], directory.Edit{Title: &c[0]})
		w.want(directory.Selection{Words: c[1]}, ids[0])
	}
}

// What is set while all is erased is erased, too, or found by another call, also when the sessions are gone.
func testLate(w *world) {
	for late := range 4 { // before which scope it is set
		ids := w.create(2)
		w.set(ids[0], directory.Edit{Title: new("early")})
		scopes, err := w.Scopes(w.Context())
		if err != nil || len(scopes) != 3 {
			w.Fatal(scopes, err)
		}
		erase := func(scope string) {
			if _, err := w.store.State().Erase(w.Context(), scope); err != nil {
				w.Fatal(err)
			}
		}
		for i, scope := range append(scopes, "") {
			if i == late {
				w.set(ids[0], directory.Edit{Title: new("late"), Starred: new(true)})
				w.set(ids[1], directory.Edit{Title: new("late, without an entry before")})
			}
			if scope != "" {
				erase(scope)
			}
		}
		for _, id := range ids {
			if _, err := w.store.Sessions().Delete(w.Context(), id); err != nil {
				w.Fatal(err)
			}
		}
		again, err := w.Scopes(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		for _, scope := range again {
			erase(scope)
		}
		for _, scope := range scopes {
			left, err := w.store.State().List(w.Context(), repo.Scope{Name: scope}, "", repo.Page{})
			if err != nil || len(left.Values) > 0 {
				w.Errorf("set before scope %d: %+v is left, %v", late, left.Values, err)
			}
		}
	}
}

// stopped is a store on which an erasure does not come to pass, as when its process ends before.
type stopped struct{ repo.Repositories }

type stoppedState struct{ repo.State }

func (s stopped) State() repo.State { return stoppedState{s.Repositories.State()} }

func (stoppedState) Erase(context.Context, string) (int64, error) { return 0, repo.ErrUnavailable }

// A sweep that ends in the middle leaves no key that nothing finds.
func testStopped(w *world) {
	id := w.create(1)[0]
	if _, err := w.MarkRead(w.Context(), id, 1); err != nil {
		w.Fatal(err)
	}
	scopes, err := w.Scopes(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.store.Sessions().Delete(w.Context(), id); err != nil {
		w.Fatal(err)
	}
	d, err := directory.New(stopped{w.store}, "ann")
	if err != nil {
		w.Fatal(err)
	}
	if _, _, err := d.Sweep(w.Context(), repo.Page{}); !errors.Is(err, repo.ErrUnavailable) {
		w.Error(err)
	}
	left, err := w.store.State().List(w.Context(), repo.Scope{Name: scopes[1]}, "", repo.Page{})
	if err != nil || len(left.Values) > 0 {
		w.Errorf("%+v, %v", left.Values, err)
	}
}

// The fork of a link is no conversation.
func testLinks(w *world) {
	links, err := share.New(w.store)
	if err != nil {
		w.Fatal(err)
	}
	link, _, err := links.Create(w.Context(), w.create(1)[0], 0, time.Hour)
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.Set(w.Context(), link.ID, directory.Edit{Starred: new(true)}); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
	if _, err := w.MarkRead(w.Context(), link.ID, 1); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
}

// With more than an index is read of, sessions are read by activity, and nothing is missing.
func testLarge(w *world) {
	const count = 1100
	ids := w.create(count)
	var all sync.WaitGroup
	for part := range slices.Chunk(ids, count/4) {
		all.Go(func() {
			for i, id := range part {
				edit := directory.Edit{AddTags: []string{"all"}}
				if i < 10 {
					edit.AddTags = append(edit.AddTags, "few")
				}
				if err := again(func() error { _, err := w.Set(w.Context(), id, edit); return err }); err != nil {
					w.Error(err)
				}
			}
		})
	}
	all.Wait()
	w.store.Elapse(time.Hour)
	if found, unsure := w.walk(directory.Selection{}, 100, nothing); len(idsOf(found)) != count || !unsure { // all were active in the last minute
		w.Errorf("%d found, unsure %t", len(found), unsure)
	}
	w.create(1)
	found, unsure := w.walk(directory.Selection{Tags: []string{"all"}}, 100, nothing)
	if !slices.Equal(idsOf(found), reversed(ids)) || unsure {
		w.Errorf("%d found, unsure %t", len(found), unsure)
	}
	if found, unsure = w.walk(directory.Selection{Tags: []string{"all", "few"}}, 7, nothing); len(idsOf(found)) != 40 || unsure {
		w.Errorf("%d found, unsure %t", len(found), unsure)
	}
	// An index that grows beyond that while it is walked.
	for _, id := range ids[:200] {
		w.set(id, directory.Edit{RemoveTags: []string{"all"}})
	}
	left := ids[200:]
	grow := func() {
		for _, id := range ids[:1] {
			w.set(id, directory.Edit{AddTags: []string{"all"}})
		}
	}
	found, unsure = w.walk(directory.Selection{Tags: []string{"all"}}, 400, grow)
	for _, id := range left {
		if !slices.Contains(idsOf(found), id) {
			w.Errorf("%s is missing", id)
		}
	}
	if len(found) > len(left)+1 || unsure {
		w.Errorf("%d found, unsure %t", len(found), unsure)
	}
}

// naive lists sessions by activity, as a sidebar without a directory does.
func (w *world) naive(limit int, between func()) map[repo.ID]bool {
	w.Helper()
	seen := map[repo.ID]bool{}
	for page := (repo.Page{Limit: limit}); ; between() {
		list, err := w.store.Sessions().List(w.Context(), repo.SessionFilter{Owner: "ann", ByActivity: true}, page)
		if err != nil {
			w.Fatal(err)
		}
		for _, s := range list.Items {
			seen[s.ID] = true
		}
		if page.After = list.Next; page.After == "" {
			return seen
		}
	}
}

// moving appends, whenever it is called, to those sessions that were active the longest time ago.
func (w *world) moving(ids []repo.ID) func() {
	next := 0
	return func() {
		for range 3 {
			if err := w.append(w.Context(), ids[next%len(ids)]); err != nil {
				w.Fatal(err)
			}
			next++
		}
	}
}

// A walk misses no session to which messages are appended meanwhile. A list by activity alone does.
func testMoved(w *world) {
	ids := w.create(60)
	for i, id := range ids {
		w.set(id, directory.Edit{AddTags: []string{"t"}, Starred: new(i%5 == 0)})
	}
	for _, selection := range []directory.Selection{{}, {StarredFirst: true}, {Tags: []string{"t"}}, {Starred: true}, {Unread: true}} {
		w.store.Elapse(time.Hour)
		all, unsure := w.walk(selection, 10, w.moving(w.byActivity()))
		seen, moved := map[repo.ID]bool{}, 0
		for _, c := range all {
			if seen[c.Session.ID] = true; c.Moved {
				moved++
			}
		}
		want := 60
		if selection.Starred {
			want = 12
		}
		if len(seen) != want || moved == 0 && !selection.Starred || unsure {
			w.Errorf("%+v: %d of %d, %d have moved, unsure %t", selection, len(seen), want, moved, unsure)
		}
	}
	w.store.Elapse(time.Hour)
	if seen := w.naive(10, w.moving(w.byActivity())); len(seen) == 60 {
		w.Error("the naive way has missed nothing")
	}
}

// byActivity returns Ann's sessions, the one that was active last last.
func (w *world) byActivity() (ids []repo.ID) {
	w.Helper()
	list, err := w.store.Sessions().List(w.Context(), repo.SessionFilter{Owner: "ann", ByActivity: true}, repo.Page{Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	for _, s := range list.Items {
		ids = append(ids, s.ID)
	}
	return reversed(ids)
}

// Appenders that never pause make a walk repeat what has moved, and at last say that something may be missing.
func testAppenders(w *world) {
	ids := w.create(40)
	w.store.Elapse(time.Hour)
	ctx, stop := context.WithCancel(w.Context())
	var all sync.WaitGroup
	var appended atomic.Int64
	for n := range 4 {
		all.Go(func() {
			for i := n; ctx.Err() == nil; i += 4 {
				if err := w.append(ctx, ids[i%len(ids)]); err != nil && ctx.Err() == nil && !errors.Is(err, repo.ErrUnknownOutcome) {
					w.Error(err)
				}
				appended.Add(1)
			}
		})
	}
	for range 5 {
		for _, limit := range []int{3, 17, 50} {
			found, unsure := w.walk(directory.Selection{StarredFirst: true}, limit, nothing)
			seen := map[repo.ID]bool{}
			for _, c := range found {
				seen[c.Session.ID] = true
			}
			if len(seen) < len(ids) && !unsure || limit == 50 && unsure {
				w.Errorf("%d of %d in pages of %d, unsure %t", len(seen), len(ids), limit, unsure)
			}
		}
	}
	stop()
	all.Wait()
	w.Logf("%d appends", appended.Load())
}

// What is starred, and what is no longer, while a walk is among the others is not missed.
func testStarredMeanwhile(w *world) {
	ids := w.create(30)
	for _, id := range ids[:15] {
		w.set(id, directory.Edit{Starred: new(true)})
	}
	w.store.Elapse(time.Hour)
	pages := 0
	found, unsure := w.walk(directory.Selection{StarredFirst: true}, 4, func() {
		if pages++; pages == 2 || pages == 5 {
			for i, id := range ids { // those in the middle change each time
				if i > 2 && i < 28 {
					w.set(id, directory.Edit{Starred: new(!w.get(id).Starred)})
				}
			}
		}
	})
	seen := map[repo.ID]bool{}
	for _, c := range found {
		seen[c.Session.ID] = true
	}
	if len(seen) != len(ids) || unsure {
		w.Errorf("%d of %d, unsure %t", len(seen), len(ids), unsure)
	}
}

func testCounts(w *world) {
	ids := w.create(6)
	for i, id := range ids {
		w.set(id, directory.Edit{Starred: new(i < 3), Archived: new(i < 2), AddTags: []string{"all", fmt.Sprint("mod/", i%2)}})
	}
	w.set(ids[0], directory.Edit{Starred: new(false), RemoveTags: []string{"all"}})
	if _, err := w.MarkRead(w.Context(), ids[0], 1); err != nil {
		w.Error(err)
	}
	if counts, err := w.Counts(w.Context()); err != nil || fmt.Sprint(counts) != "{6 2 2 map[all:5 mod/0:3 mod/1:3]}" {
		w.Errorf("%+v, %v", counts, err)
	}
}

// The entries of sessions that are deleted are listed no more, and swept, by several at once, and the others stay.
func testSweep(w *world) {
	ids := w.create(10)
	for _, id := range ids {
		w.set(id, directory.Edit{Title: new("a title"), Starred: new(true), AddTags: []string{"t"}})
	}
	for _, id := range ids[:7] {
		if _, err := w.store.Sessions().Delete(w.Context(), id); err != nil {
			w.Fatal(err)
		}
	}
	w.store.Elapse(time.Hour)
	for _, s := range []directory.Selection{{}, {StarredFirst: true}, {Tags: []string{"t"}}, {Words: "title"}} {
		w.want(s, reversed(ids[7:])...)
	}
	var removed atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for page := (repo.Page{Limit: 4}); ; {
				n, next, err := w.Sweep(w.Context(), page)
				removed.Add(int64(n))
				if page.After = next; err != nil {
					w.Error(err)
				}
				if page.After == "" {
					return
				}
			}
		})
	}
	all.Wait()
	scopes, err := w.Scopes(w.Context())
	counts, also := w.Counts(w.Context())
	if err != nil || also != nil || removed.Load() != 7 || fmt.Sprint(counts) != "{3 3 0 map[t:3]}" || len(scopes) != 4 {
		w.Errorf("%d removed, %+v, %d scopes: %v, %v", removed.Load(), counts, len(scopes), err, also)
	}
	for _, s := range []directory.Selection{{}, {StarredFirst: true}, {Tags: []string{"t"}}, {Words: "title"}} {
		w.want(s, reversed(ids[7:])...)
	}
	for _, scope := range scopes { // as an erasure does
		if _, err := w.store.State().Erase(w.Context(), scope); err != nil {
			w.Error(err)
		}
	}
	if c := w.get(ids[9]); c.Title != "" || c.Starred {
		w.Errorf("%+v", c)
	}
	w.want(directory.Selection{Words: "title"})
}
