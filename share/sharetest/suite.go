// Package sharetest tests package share on a store.
package sharetest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/share"
)

// Store is a whole store.
type Store interface {
	repo.Store

	In(namespace string) repo.Store
}

// Run tests the package, each test in a namespace of its own.
func Run(t *testing.T, store Store) {
	for name, test := range map[string]func(*world){
		"Shown": testShown, "Pages": testPages, "Refused": testRefused, "Invalid": testInvalid, "Erased": testErased, "Parent": testParent,
		"Held": testHeld, "List": testList, "Races": testRaces, "Ended": testEnded, "Views": testViews,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := store.In(t.Name())
			links, err := share.New(view)
			if err != nil {
				t.Fatal(err)
			}
			test(&world{t, links, view, store})
		})
	}
}

// world has the links of a view.
type world struct {
	*testing.T
	*share.Links

	store repo.Store
	whole Store
}

// elapse brings the time nearer that links expire.
func (w *world) elapse(d time.Duration) {
	w.Helper()
	list, err := w.store.Sessions().List(w.Context(), repo.SessionFilter{AnyOwner: true}, repo.Page{})
	for _, s := range list.Items {
		if !share.IsLink(s) || err != nil {
			continue
		}
		var value repo.StateValue
		record, scope := map[string]any{}, repo.Scope{SessionID: s.ID}
		if value, err = w.store.State().Get(w.Context(), scope, "share"); errors.Is(err, repo.ErrNotFound) {
			continue
		}
		if err = errors.Join(err, json.Unmarshal(value.Value, &record)); err != nil {
			break
		}
		until, _ := time.Parse(time.RFC3339Nano, record["until"].(string))
		record["until"] = until.Add(-d)
		value.Value, err = json.Marshal(record)
		if err != nil {
			break
		}
		_, err = w.store.State().Change(w.Context(), []repo.StateChange{{Scope: scope, Key: "share", Value: value.Value}})
	}
	if err != nil {
		w.Fatal(err)
	}
}

// create makes a session of an owner's, with messages.
func (w *world) create(owner string, messages ...repo.NewMessage) repo.ID {
	w.Helper()
	turn := repo.Turn{SessionID: repo.NewID(), Create: &repo.NewSession{Owner: owner}, Messages: messages}
	if _, err := w.store.Sessions().AppendTurn(w.Context(), turn); err != nil {
		w.Fatal(err)
	}
	return turn.SessionID
}

func said(texts ...string) (messages []repo.NewMessage) {
	for _, text := range texts {
		messages = append(messages, repo.NewMessage{Role: repo.RoleUser, Content: text, Payload: []byte("payload"), Metadata: []byte(`{"m":1}`)})
	}
	return messages
}

func (w *world) share(session repo.ID, at int64) (share.Link, string) {
	w.Helper()
	link, token, err := w.Create(w.Context(), session, at, time.Hour)
	if err != nil {
		w.Fatal(err)
	}
	return link, token
}

// want checks what a token shows; no texts: nothing, with the one error that there is.
func (w *world) want(token string, texts ...string) {
	w.Helper()
	shared, err := w.Open(w.Context(), token, share.Show{})
	var got []string
	for _, m := range shared.Messages {
		got = append(got, m.Content)
	}
	const none = `link "of this token" not found`
	if !slices.Equal(got, texts) || shared.More || (err != nil) != (len(texts) == 0) || err != nil && (err.Error() != none || !errors.Is(err, repo.ErrNotFound)) {
		w.Errorf("%q, more %t: %v; want %q", got, shared.More, err, texts)
	}
}

// A link shows the transcript up to its message, whatever is appended to the session, and to the fork, afterwards.
func testShown(w *world) {
	id := w.create("ann", said("a", "b", "c", "d")...)
	link, token := w.share(id, 1)
	w.want(token, "a", "b")
	if _, err := w.store.Sessions().Append(w.Context(), id, said("later")...); err != nil {
		w.Fatal(err)
	}
	if _, err := w.store.Sessions().Append(w.Context(), link.ID, said("refused")...); !errors.Is(err, repo.ErrConflict) {
		w.Error(err)
	}
	off := false
	if _, err := w.store.Sessions().Update(w.Context(), link.ID, repo.SessionUpdate{FencedOnly: &off}); err != nil {
		w.Fatal(err)
	}
	if _, err := w.store.Sessions().Append(w.Context(), link.ID, said("appended")...); err != nil {
		w.Fatal(err)
	}
	w.want(token, "a", "b")
	for from, want := range []int{2, 1, 0, 0} { // 2 is the one that was appended
		shared, err := w.Open(w.Context(), token, share.Show{From: int64(from), All: true})
		if err != nil || len(shared.Messages) != want || shared.More || shared.ID != link.ID || shared.Session != id || shared.At != 1 || !shared.Until.Equal(link.Until) {
			w.Errorf("from %d: %+v, %v", from, shared, err)
		}
	}
	// What is redacted is redacted in the link, too.
	if err := w.store.Sessions().Redact(w.Context(), id, []int64{1}, repo.Cause{Actor: "ann", Reason: "secret"}); err != nil {
		w.Fatal(err)
	}
	w.want(token, "a", "erased")
	// A session without its messages after a rewind, and the branch that was shared.
	if _, err := w.store.Sessions().AppendTurn(w.Context(), repo.Turn{SessionID: id, After: new(int64(0)), Messages: said("other")}); err != nil {
		w.Fatal(err)
	}
	w.want(token, "a", "erased")
	_, token = w.share(id, 6) // 5 is the message that tells of the redaction
	w.want(token, "a", "other")
}

// What only the agent is to see is left out, in pages, unless all is wanted.
func testPages(w *world) {
	var messages []repo.NewMessage
	for i, role := range []repo.Role{repo.RoleSystem, repo.RoleDeveloper, repo.RoleUser, repo.RoleAssistant, repo.RoleAssistant, repo.RoleTool, repo.RoleAssistant} {
		messages = append(messages, said(fmt.Sprint(i))...)
		messages[i].Role = role
	}
	messages[3].Kind = repo.KindReasoning
	_, token := w.share(w.create("ann", messages...), 6)
	for _, all := range []bool{false, true} {
		for limit := range 9 {
			got, want := "", "2456"
			if all {
				want = "0123456"
			}
			for show, more := (share.Show{Limit: limit, All: all}), true; more; {
				shared, err := w.Open(w.Context(), token, show)
				if err != nil {
					w.Fatal(err)
				}
				for _, m := range shared.Messages {
					if got += m.Content; (len(m.Payload) > 0) != all || (string(m.Metadata) != "{}") != all || m.SessionID != shared.ID {
						w.Errorf("%+v", m)
					}
				}
				show.From, more = shared.Next, shared.More
			}
			if got != want {
				w.Errorf("limit %d: %q, want %q", limit, got, want)
			}
		}
	}
}

// A token that is wrong in any way, or has expired or was revoked, has one answer.
func testRefused(w *world) {
	id := w.create("ann", said("a")...)
	link, token := w.share(id, 0)
	other, second := w.share(id, 0)
	w.want("")
	w.want("x")
	w.want(token[:len(token)-1])
	w.want(token + "A")
	w.want(token + "\n") // which a decoder skips
	w.want(token[:9] + "\r\n" + token[9:])
	w.want(token[:22] + second[22:])              // another secret
	w.want(second[:22] + strings.Repeat("A", 42)) // no secret
	for i, c := range token {
		changed := "A"
		if c == 'A' {
			changed = "B"
		}
		w.want(token[:i] + changed + token[i+1:])
	}
	w.want(token, "a")
	if err := w.Revoke(w.Context(), "bob", link.ID); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
	for _, of := range []repo.ID{id, repo.NewID()} { // which are no links
		if err := w.Revoke(w.Context(), "ann", of); !errors.Is(err, repo.ErrNotFound) {
			w.Error(err)
		}
	}
	w.want(token, "a")
	if err := w.Revoke(w.Context(), "ann", link.ID); err != nil {
		w.Error(err)
	}
	w.want(token)
	if err := w.Revoke(w.Context(), "ann", link.ID); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
	w.want(second, "a")
	w.elapse(59 * time.Minute)
	w.want(second, "a")
	w.elapse(2 * time.Minute)
	w.want(second)
	if _, err := w.store.Sessions().Get(w.Context(), other.ID); err != nil {
		w.Error(err)
	}
	if n, next, err := w.Sweep(w.Context(), "ann", repo.Page{}); n != 1 || next != "" || err != nil {
		w.Errorf("%d, %q, %v", n, next, err)
	}
	if _, err := w.store.Sessions().Get(w.Context(), other.ID); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
	if _, err := w.store.Sessions().Get(w.Context(), id); err != nil {
		w.Error(err)
	}
}

func testInvalid(w *world) {
	id := w.create("ann", said("a")...)
	for i, c := range []struct {
		session repo.ID
		at      int64
		life    time.Duration
		want    error
	}{
		{id, 0, 0, repo.ErrInvalid},
		{id, 0, -1, repo.ErrInvalid},
		{id, 0, share.MaxLife + 1, repo.ErrInvalid},
		{id, 1, time.Hour, repo.ErrNotFound},
		{id, -1, time.Hour, repo.ErrInvalid},
		{repo.NewID(), 0, time.Hour, repo.ErrNotFound},
		{repo.ID{}, 0, time.Hour, repo.ErrNotFound},
		{w.create("", said("a")...), 0, time.Hour, repo.ErrInvalid},
	} {
		if link, token, err := w.Create(w.Context(), c.session, c.at, c.life); !errors.Is(err, c.want) || token != "" || !link.ID.IsZero() {
			w.Errorf("%d: %v", i, err)
		}
	}
	_, token := w.share(id, 0)
	for _, show := range []share.Show{{From: -1}, {Limit: -1}, {Limit: 1001}} {
		if _, err := w.Open(w.Context(), token, show); !errors.Is(err, repo.ErrInvalid) {
			w.Errorf("%+v: %v", show, err)
		}
	}
	if _, err := w.List(w.Context(), "", repo.Page{}); !errors.Is(err, repo.ErrInvalid) {
		w.Error(err)
	}
	if list, err := w.List(w.Context(), "ann", repo.Page{}); err != nil || len(list.Items) != 1 {
		w.Errorf("%+v, %v", list, err)
	}
	if err := w.Revoke(w.Context(), "", repo.NewID()); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
	if _, err := share.New(nil); !errors.Is(err, repo.ErrInvalid) {
		w.Error(err)
	}
}

// The erasure of the owner ends links, and leaves no message that they had.
func testErased(w *world) {
	link, token := w.share(w.create("ann", said("a", "b")...), 1)
	_, bobs := w.share(w.create("bob", said("c")...), 0)
	fork, err := w.store.Sessions().Get(w.Context(), link.ID)
	if err != nil || len(fork.Actor) > len("agentstore/share/")+2 { // a whole hash would stay in the audit trail, and confirm who it was
		w.Errorf("%q, %v", fork.Actor, err)
	}
	receipt, err := erase.Subject(w.Context(), w.whole, erase.Request{
		Owner: "ann", Namespaces: []string{w.Name()}, Key: []byte("sixteen bytes or"), Reason: "request", RequestedBy: "officer",
	})
	if err != nil || receipt.Sessions != 2 {
		w.Errorf("%+v, %v", receipt, err)
	}
	w.want(token)
	w.want(bobs, "c")
	if _, err := w.store.Sessions().Get(w.Context(), link.ID); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
	if list, err := w.List(w.Context(), "ann", repo.Page{}); err != nil || len(list.Items) > 0 {
		w.Errorf("%+v, %v", list, err)
	}
}

// A link outlives its session, since it was made for others, until it is revoked.
func testParent(w *world) {
	id := w.create("ann", said("a", "b")...)
	link, token := w.share(id, 0)
	if _, _, err := w.Create(w.Context(), link.ID, 0, time.Hour); !errors.Is(err, repo.ErrNotFound) { // it would not end with the link
		w.Error(err)
	}
	if _, err := w.store.Sessions().Delete(w.Context(), id); err != nil {
		w.Fatal(err)
	}
	w.want(token, "a")
	if _, _, err := w.Create(w.Context(), id, 0, time.Hour); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
	if err := w.Revoke(w.Context(), "ann", link.ID); err != nil {
		w.Error(err)
	}
	w.want(token)
}

// A legal hold keeps the fork, and no link.
func testHeld(w *world) {
	link, token := w.share(w.create("ann", said("a")...), 0)
	if err := w.store.Sessions().AddHold(w.Context(), repo.LegalHold{SessionID: link.ID, Reason: "case"}); err != nil {
		w.Fatal(err)
	}
	for range 2 {
		if err := w.Revoke(w.Context(), "ann", link.ID); err != nil {
			w.Error(err)
		}
		w.want(token)
	}
	if list, err := w.List(w.Context(), "ann", repo.Page{}); err != nil || len(list.Items) > 0 {
		w.Errorf("%+v, %v", list, err)
	}
}

func testList(w *world) {
	id := w.create("ann", said("a", "b", "c", "d", "e")...)
	var want []share.Link
	first, others := sha256.Sum256([]byte("ann")), 0
	for i := 0; others < 3; i++ { // which an index finds with Ann's
		name := fmt.Sprint("other ", i)
		if sum := sha256.Sum256([]byte(name)); sum[0] == first[0] {
			w.share(w.create(name, said("x")...), 0)
			others++
		}
	}
	for at := range int64(5) {
		link, _ := w.share(id, at)
		want = append([]share.Link{link}, want...)
		w.share(w.create("bob", said("x")...), 0)
	}
	var got []share.Link
	for page := (repo.Page{Limit: 2}); ; {
		list, err := w.List(w.Context(), "ann", page)
		if err != nil {
			w.Fatal(err)
		}
		got = append(got, list.Items...)
		if page.After = list.Next; page.After == "" {
			break
		}
	}
	if len(got) != 5 {
		w.Fatalf("%+v", got)
	}
	slices.SortFunc(got, func(a, b share.Link) int { return int(b.At - a.At) }) // they may have one time
	for i := range got {
		if !got[i].Until.Equal(want[i].Until) || got[i].ID != want[i].ID || got[i].At != want[i].At || got[i].Session != id {
			w.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

// A read that begins after a revocation shows nothing, however many read at that time.
func testRaces(w *world) {
	for range 5 {
		link, token := w.share(w.create("ann", said("a")...), 0)
		revoked, opened := make(chan struct{}), make(chan struct{}, 1000)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					after := false
					select {
					case <-revoked:
						after = true
					default:
					}
					shared, err := w.Open(w.Context(), token, share.Show{})
					switch {
					case err == nil && (after || len(shared.Messages) != 1):
						w.Errorf("shown %+v, after it was revoked: %t", shared, after)
						return
					case err != nil && !errors.Is(err, repo.ErrNotFound):
						w.Error(err)
						return
					case err != nil && after:
						return
					}
					select {
					case opened <- struct{}{}:
					default:
					}
				}
			})
		}
		<-opened
		if err := w.Revoke(w.Context(), "ann", link.ID); err != nil {
			w.Error(err)
		}
		close(revoked)
		all.Wait()
	}
}

func testEnded(w *world) {
	id := w.create("ann", said("a")...)
	link, token := w.share(id, 0)
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	_, _, create := w.Create(ctx, id, 0, time.Hour)
	_, open := w.Open(ctx, token, share.Show{})
	_, list := w.List(ctx, "ann", repo.Page{})
	_, _, sweep := w.Sweep(ctx, "ann", repo.Page{})
	for i, err := range []error{create, open, list, sweep, w.Revoke(ctx, "ann", link.ID)} {
		if !errors.Is(err, context.Canceled) {
			w.Errorf("%d: %v", i, err)
		}
	}
	w.want(token, "a")
}

// A link of another namespace does not exist.
func testViews(w *world) {
	link, token := w.share(w.create("ann", said("a")...), 0)
	// One that the whole store makes is where its session is, and ends with what is erased there.
	all, err := share.New(w.whole)
	if err != nil {
		w.Fatal(err)
	}
	_, second, err := all.Create(w.Context(), link.Session, 0, time.Hour)
	if list, also := w.List(w.Context(), "ann", repo.Page{}); err != nil || also != nil || len(list.Items) != 2 {
		w.Errorf("%+v, %v, %v", list, err, also)
	}
	w.want(second, "a")
	other, err := share.New(w.whole.In(w.Name() + "2"))
	if err != nil {
		w.Fatal(err)
	}
	_, open := other.Open(w.Context(), token, share.Show{})
	list, also := other.List(w.Context(), "ann", repo.Page{})
	revoke := other.Revoke(w.Context(), "ann", link.ID)
	if !errors.Is(open, repo.ErrNotFound) || also != nil || len(list.Items) > 0 || !errors.Is(revoke, repo.ErrNotFound) {
		w.Errorf("%v; %+v, %v; %v", open, list, also, revoke)
	}
	w.want(token, "a")
}
