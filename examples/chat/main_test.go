package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// Who reads an answer that cannot be kept learns of it when it is made, not when its stream
// expires.
func TestAnswerFails(t *testing.T) {
	store, err := agentstore.Open(t.Context(), "memory://chat-test", agentstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	chat := &chat{store: store, session: session.ID}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/messages?text=hello", strings.NewReader(""))
	request.AddCookie(&http.Cookie{Name: cookie, Value: "ann"})
	response := httptest.NewRecorder()
	if chat.post(response, request); response.Code != http.StatusNoContent {
		t.Fatalf("status %d", response.Code)
	}
	question, err := store.Sessions().LastMessages(t.Context(), session.ID, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sessions().Delete(t.Context(), session.ID); err != nil {
		t.Fatal(err)
	}
	chat.answering.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, err = range store.Streams().Follow(ctx, chat.streamKey(question[0].CallID), repo.StreamPosition{}) {
	}
	if failed, ok := errors.AsType[*repo.StreamFailedError](err); !ok || failed.Reason != "interrupted" {
		t.Errorf("the answer ended: %v", err)
	}
}
