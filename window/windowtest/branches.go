package windowtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/window"
)

// The prompt of a branch that is not shown is the one that it would have as the transcript.
func testBranch(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	appendAll(t, store, id, said(repo.RoleSystem, "brief"), said(repo.RoleUser, "q1"))
	for i := range 20 {
		addStep(t, store, id, i)
		if i%5 == 4 {
			appendAll(t, store, id, said(repo.RoleUser, "next"))
			if _, err := window.Compact(t.Context(), store, id, window.Options{Tokens: 200}, short); err != nil {
				t.Fatal(err)
			}
		}
	}
	ends := []int64{int64(len(all(t, store, id))) - 1}
	for _, after := range []int64{ends[0] - 3, 30, 1, 0} {
		turn, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, After: &after, Messages: []repo.NewMessage{
			said(repo.RoleUser, fmt.Sprint("edited ", after)), thought("r", 5), called("c", "call"), result("c", "result"),
		}})
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, turn.Messages[3].Sequence, turn.Messages[1].Sequence)
	}
	fork, err := store.Sessions().Fork(t.Context(), id, 20, repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	add(t, store, fork.ID, 3)
	for _, session := range []repo.ID{id, fork.ID} {
		if session == fork.ID {
			ends = []int64{23, 22, 20, 7}
		}
		pin := all(t, store, id)[0].ID
		for _, tokens := range []int64{40, 90, 150, 1000} {
			o := window.Options{Tokens: tokens, Pins: []repo.ID{pin}}
			for _, end := range ends {
				head := end
				o.Head = &head
				aside, failed := window.Read(t.Context(), store.Sessions(), session, o)
				if _, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: session, After: &head}); err != nil {
					t.Fatal(err)
				}
				o.Head = nil
				shown, err := window.Read(t.Context(), store.Sessions(), session, o)
				if contents(aside.Messages) != contents(shown.Messages) || aside.From != shown.From || aside.Cut != shown.Cut ||
					!slices.Equal(aside.Unpinned, shown.Unpinned) || errors.Is(failed, repo.ErrLimit) != errors.Is(err, repo.ErrLimit) || len(shown.Messages) == 0 && err == nil {
					t.Errorf("%d tokens up to %d: %s, %v; shown: %s, %v", tokens, end, contents(aside.Messages), failed, contents(shown.Messages), err)
				}
			}
		}
	}
	if _, err := window.Read(t.Context(), store.Sessions(), repo.NewID(), window.Options{Tokens: 1, Head: new(int64)}); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("of no session: %v", err)
	}
	wantHeadChecked(t, store, id)
}

// wantHeadChecked wants a head that is no message to be refused.
func wantHeadChecked(t *testing.T, store repo.Store, id repo.ID) {
	t.Helper()
	for _, head := range []int64{-1, 1000} {
		o := window.Options{Tokens: 100, Head: &head}
		_, err := window.Read(t.Context(), store.Sessions(), id, o)
		_, compacted := window.Compact(t.Context(), store, id, o, short)
		for _, err := range []error{err, compacted} {
			if invalid, is := errors.AsType[*repo.InvalidError](err); !is || invalid.Field != "options.Head" {
				t.Errorf("up to %d: %v", head, err)
			}
		}
	}
}

// aside appends an answer to a question while the session shows another branch, which stays the transcript: see docs/history.md.
func aside(ctx context.Context, store repo.Store, turn repo.Turn, question int64, err error) (appended repo.AppendedTurn, _ error) {
	var conflict *repo.SequenceConflictError
	for errors.As(err, &conflict) {
		turn.After, turn.Head = &question, &conflict.Next
		back := repo.Turn{SessionID: turn.SessionID, ID: turn.ID + "/back", Existing: true, After: &conflict.Next}
		err = store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) (err error) {
			if appended, err = tx.Sessions().AppendTurn(ctx, turn); err == nil {
				_, err = tx.Sessions().AppendTurn(ctx, back)
			}
			return err
		})
	}
	return appended, err
}

// An answer lands on the branch of its question, also if the user looks at another one by then, and can be found.
func testAside(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	appendAll(t, store, id, said(repo.RoleUser, "q0"), said(repo.RoleAssistant, "a0"), said(repo.RoleUser, "q1"))
	question, before := int64(2), int64(1)
	if _, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, After: &before, Messages: []repo.NewMessage{said(repo.RoleUser, "edited")}}); err != nil {
		t.Fatal(err)
	}
	answer := repo.Turn{SessionID: id, ID: "answer", Head: &question, Messages: []repo.NewMessage{said(repo.RoleAssistant, "a1")}}
	_, refused := window.AppendTurn(t.Context(), store.Sessions(), answer)
	if conflict, is := errors.AsType[*repo.SequenceConflictError](refused); !is || conflict.Next != 3 {
		t.Fatalf("%v", refused)
	}
	if w := read(t, store, id, window.Options{Tokens: 1000, Head: &question}); contents(w.Messages) != "q0 a0 q1" {
		t.Errorf("the prompt of the answer is %s", contents(w.Messages))
	}
	appendAll(t, store, id, said(repo.RoleAssistant, "a-edited")) // since the conflict
	appended, err := aside(t.Context(), store, answer, question, refused)
	if err != nil || appended.Messages[0].Follows != question {
		t.Fatalf("%+v, %v", appended, err)
	}
	appendAll(t, store, id, said(repo.RoleUser, "q2"))
	again, err := aside(t.Context(), store, answer, question, refused)
	if err != nil || !again.Repeated {
		t.Errorf("%+v, %v", again, err)
	}
	if got := contents(all(t, store, id)); got != "q0 a0 edited a-edited q2" {
		t.Errorf("the transcript is %s", got)
	}
	branches, err := store.Sessions().Branches(t.Context(), id, question)
	if err != nil || !slices.ContainsFunc(branches, func(b repo.Branch) bool { return b.Sequence == question && b.Last == appended.Messages[0].Sequence }) {
		t.Errorf("%+v, %v", branches, err)
	}
	last := appended.Messages[0].Sequence
	if _, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, After: &last}); err != nil {
		t.Fatal(err)
	}
	if got := contents(all(t, store, id)); !strings.HasSuffix(got, "q1 a1") {
		t.Errorf("the branch is %s", got)
	}
}
