package agentstore_test

// The code of docs/recipes.md. A test in tests/docs compares the two.

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

func inMemory(t *testing.T) *agentstore.Store {
	t.Helper()
	store, err := agentstore.Open(t.Context(), "memory://"+t.Name(), agentstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// question is a turn with the id that a client gave it, in a session that it creates.
func question(key, id string) repo.Turn {
	return repo.Turn{
		Create: &repo.NewSession{Namespace: "chat", Key: key, Owner: "ann"}, ID: id,
		Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "question " + id}},
	}
}

func post(ctx context.Context, store repo.Store, turn repo.Turn) (repo.AppendedTurn, error) {
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		added, err := store.Sessions().AppendTurn(ctx, turn) // turn.ID is the client's
		passes := errors.Is(err, repo.ErrUnavailable) || errors.Is(err, repo.ErrContention) || errors.Is(err, repo.ErrUnknownOutcome)
		if !passes || pause > 5*time.Second {
			return added, err
		}
		time.Sleep(pause)
	}
}

func TestRecipeRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := inMemory(t)
		// Its first answers are lost.
		lossy := &outcomes{Store: store, errs: []error{repo.ErrUnknownOutcome, repo.ErrUnavailable}}
		added, err := post(t.Context(), lossy, question("k", "1"))
		if err != nil || !added.Repeated || added.Messages[0].Sequence != 0 {
			t.Errorf("%+v, %v", added, err)
		}
		other := question("k", "1")
		other.Messages[0].Content = "another one"
		if _, err := post(t.Context(), store, other); !errors.Is(err, repo.ErrConflict) {
			t.Errorf("another question with the id: %v", err)
		}
	})
}

// outcomes is a store whose turns are stored, and whose answers are these first.
type outcomes struct {
	repo.Store

	errs []error
}

func (o *outcomes) Sessions() repo.Sessions { return lossySessions{o.Store.Sessions(), o} }

type lossySessions struct {
	repo.Sessions

	o *outcomes
}

func (s lossySessions) AppendTurn(ctx context.Context, turn repo.Turn) (repo.AppendedTurn, error) {
	added, err := s.Sessions.AppendTurn(ctx, turn)
	if len(s.o.errs) > 0 {
		err, s.o.errs = s.o.errs[0], s.o.errs[1:]
	}
	return added, err
}

// oneAtATime calls answer with a turn that lacks its messages alone.
func oneAtATime(ctx context.Context, store repo.Store, session repo.ID, answer func(context.Context, repo.Turn) error) error {
	lease := repo.NewLease{Key: repo.SessionLease(session), Owner: "chat " + repo.NewID().String(), TTL: 10 * time.Second}
	held, err := repo.HoldLease(ctx, store, lease)
	for errors.Is(err, repo.ErrConflict) && ctx.Err() == nil { // another answer is being made
		time.Sleep(100 * time.Millisecond)
		held, err = repo.HoldLease(ctx, store, lease)
	}
	if err != nil {
		return err
	}
	defer func() { _ = held.Release(context.WithoutCancel(ctx)) }()
	question, err := store.Sessions().LastMessages(held.Context(), session, 1)
	if err != nil || len(question) == 0 {
		return err
	}
	return answer(held.Context(), repo.Turn{SessionID: session, Fence: held.Lease().Fence, Head: &question[0].Sequence})
}

func TestRecipeOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := inMemory(t)
		session, err := store.Sessions().AppendTurn(t.Context(), question("k", "1"))
		if err != nil {
			t.Fatal(err)
		}
		answers, turns := 0, []repo.Turn{}
		errs := make(chan error)
		for range 3 {
			go func() {
				errs <- oneAtATime(t.Context(), store, session.SessionID, func(ctx context.Context, turn repo.Turn) error {
					if answers++; answers > 1 {
						t.Error("two answers at a time")
					}
					time.Sleep(time.Minute)
					answers--
					turn.Messages = []repo.NewMessage{{Role: repo.RoleAssistant, Content: "an answer"}}
					turns = append(turns, turn)
					return ctx.Err()
				})
			}()
		}
		for range 3 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if _, err := store.Sessions().AppendTurn(t.Context(), turns[0]); !errors.As(err, new(*repo.FencedError)) {
			t.Errorf("the token of the first: %v", err)
		}
		edit, none := question("k", "2"), int64(-1)
		edit.After = &none
		if _, err := store.Sessions().AppendTurn(t.Context(), edit); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Sessions().AppendTurn(t.Context(), turns[2]); !errors.As(err, new(*repo.SequenceConflictError)) {
			t.Errorf("an answer to a question that was edited: %v", err)
		}
	})
}

// stopped stores what was shown of an answer whose plan was cancelled, with the end of its stream. The writer's context has no end.
func stopped(ctx context.Context, store repo.Store, plan repo.ID, writer *live.PartWriter, answer repo.Turn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := writer.Flush(ctx); err != nil {
		return err
	}
	return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		now, err := tx.Plans().Get(ctx, plan)
		if err != nil || now.State != repo.PlanCancelled { // it goes on in another process
			return err
		}
		answer.Messages[0].Metadata = []byte(`{"stopped":true}`)
		if _, err := tx.Sessions().AppendTurn(ctx, answer); err != nil {
			return err
		}
		return tx.Streams().Fail(ctx, writer.Stream(), "stopped")
	})
}

// What was shown of an answer that a user stops is there after a reload, and in the next prompt.
func TestRecipeStop(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	store := inMemory(t)
	if _, err := store.Actions().Create(ctx, repo.NewAction{Name: "answer", ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
		t.Fatal(err)
	}
	ask := question("k", "1")
	ask.Action = "answer"
	asked, err := store.Sessions().AppendTurn(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	shown, done := make(chan repo.ID), make(chan error, 1)
	go func() {
		_ = repo.Work(ctx, store, repo.Claim{Owner: "w", Actions: []string{"answer"}}, func(ctx context.Context, claimed repo.ClaimedPlan) error {
			stream, err := store.Streams().Open(ctx, repo.NewStream{Key: "k", Session: asked.SessionID, Owner: "w"})
			if err != nil {
				return err
			}
			writer := live.NewPartWriter(context.WithoutCancel(ctx), store.Streams(), stream)
			if err := writer.Write(ctx, []byte("The answer is")); err != nil {
				return err
			}
			shown <- claimed.Plan.ID
			<-ctx.Done() // the model
			done <- stopped(ctx, store, claimed.Plan.ID, writer, repo.Turn{
				SessionID: asked.SessionID, ID: "answer 1", Existing: true, Head: &asked.Messages[0].Sequence,
				Messages: []repo.NewMessage{{Role: repo.RoleAssistant, Content: "The answer is"}},
			})
			return ctx.Err()
		})
	}()
	if _, err := store.Plans().Transition(ctx, <-shown, repo.TransitionCancel, repo.Cause{Reason: "a user's"}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	messages, err := store.Sessions().LastMessages(ctx, asked.SessionID, 2)
	if err != nil || len(messages) != 2 || messages[1].Content != "The answer is" || string(messages[1].Metadata) != `{"stopped":true}` {
		t.Errorf("%+v, %v", messages, err)
	}
	if stream, err := store.Streams().Get(ctx, "k"); err != nil || stream.Status != repo.StreamFailed || stream.Reason != "stopped" {
		t.Errorf("%+v, %v", stream, err)
	}
}

// shown returns what a page is rendered with: messages, and where its feed goes on.
func shown(ctx context.Context, store repo.Store, session repo.ID) (messages []repo.Message, after string, err error) {
	read, err := store.Sessions().Read(ctx, repo.ReadSessions{IDs: []repo.ID{session}, Last: 50})
	if err != nil || read.Sessions[0] == nil {
		return nil, "", err
	}
	found := read.Sessions[0]
	if count := found.Session.MessageCount; count > 0 { // on all branches
		after = session.String() + "." + strconv.FormatInt(count-1, 10)
	}
	return found.Messages, after, nil
}

func TestRecipeResume(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	var session repo.ID
	var after string
	for _, id := range []string{"1", "2", "3"} {
		added, err := store.Sessions().AppendTurn(t.Context(), question("k", id))
		if err != nil {
			t.Fatal(err)
		}
		if session = added.SessionID; id == "2" { // and the user goes back to the first question
			if _, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: session, After: new(int64)}); err != nil {
				t.Fatal(err)
			}
			if _, after, err = shown(t.Context(), store, session); err != nil {
				t.Fatal(err)
			}
		}
	}
	feed, err := live.New(store, live.Options{
		Authorize: func(*http.Request) (live.Target, error) { return live.Target{Session: session}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(feed)
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"?after="+after, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	events := bufio.NewScanner(response.Body)
	for events.Scan() && !strings.Contains(events.Text(), "question 3") {
		if strings.Contains(events.Text(), "question 2") {
			t.Errorf("after %s came\n%s", after, events.Text())
		}
	}
	if err := events.Err(); err != nil {
		t.Error(err)
	}
}

func TestHandedOn(t *testing.T) {
	clock := memory.NewClock(time.Now())
	store, err := agentstore.Open(t.Context(), "memory://"+t.Name(), agentstore.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	lease := repo.NewLease{Key: repo.LeaseKey{Kind: "project", Name: "x"}, Owner: "a", TTL: time.Minute}
	if _, err := store.Leases().Acquire(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Minute) // a dies, and a minute passes
	lease.Owner = "b"
	if _, err := store.Leases().Acquire(t.Context(), lease); err != nil {
		t.Error(err)
	}
}

// login is the sender of a request: never what is in its path or body.
type login struct{ Tenant, User string }

func keyOf(who login, conversation string) (repo.SessionKey, error) {
	if who.Tenant == "" || who.User == "" {
		return repo.SessionKey{}, errors.New("nobody has logged in") // an empty namespace is the default one
	}
	return repo.SessionKey{Namespace: who.Tenant, Key: repo.JoinKey(who.User, conversation)}, nil
}

func TestRecipeTenants(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	for _, who := range []login{{"acme", "ann"}, {"acme", "ann/c"}, {"acme/ann", "c"}, {"other", "ann"}} {
		key, err := keyOf(who, "c")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Sessions().Find(t.Context(), key); !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("%v found another user's: %v", who, err)
		}
		if _, err := store.Sessions().Create(t.Context(), repo.NewSession{Namespace: key.Namespace, Key: key.Key}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := keyOf(login{User: "ann"}, "c"); err == nil {
		t.Error("no user was let in")
	}
}

// postListed adds a question, and says so in the user's list, which is a session, too.
func postListed(ctx context.Context, store repo.Store, question repo.Turn) error {
	list := repo.NewSession{Namespace: "lists", Key: question.Create.Owner, Owner: question.Create.Owner}
	changed := repo.NewMessage{Role: repo.RoleSystem, Kind: "changed", Content: question.Create.Key}
	note := repo.Turn{Create: &list, ID: repo.JoinKey(question.Create.Key, question.ID), Messages: []repo.NewMessage{changed}}
	return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		_, err := tx.Sessions().AppendTurn(ctx, question)
		if err == nil {
			_, err = tx.Sessions().AppendTurn(ctx, note)
		}
		return err
	})
}

func TestRecipeTwoFeeds(t *testing.T) {
	t.Parallel()
	store := inMemory(t)
	for _, turn := range []repo.Turn{question("a", "1"), question("b", "1"), question("a", "1"), question("a b", "1"), question("a", "b 1")} {
		if err := postListed(t.Context(), store, turn); err != nil {
			t.Fatal(err)
		}
	}
	list, err := store.Sessions().Find(t.Context(), repo.SessionKey{Namespace: "lists", Key: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	changed, err := store.Sessions().LastMessages(t.Context(), list, 10)
	if err != nil || len(changed) != 4 || changed[1].Content != "b" || changed[3].Content != "a" {
		t.Errorf("%+v, %v", changed, err)
	}
	if got, err := store.Sessions().Get(t.Context(), list); err != nil || got.Owner != "ann" { // so an erasure of the user finds it
		t.Errorf("%+v, %v", got, err)
	}
}

type meteredStore struct {
	repo.Store

	observe func(operation string, took time.Duration, err error)
}

func (m meteredStore) Sessions() repo.Sessions { return meteredSessions{m.Store.Sessions(), m} }

type meteredSessions struct {
	repo.Sessions

	store meteredStore
}

func (m meteredSessions) AppendTurn(ctx context.Context, turn repo.Turn) (added repo.AppendedTurn, err error) {
	defer func(begin time.Time) { m.store.observe("AppendTurn", time.Since(begin), err) }(time.Now())
	return m.Sessions.AppendTurn(ctx, turn)
}

func TestRecipeMetrics(t *testing.T) {
	t.Parallel()
	var observed []string
	store := meteredStore{inMemory(t), func(operation string, _ time.Duration, err error) {
		if err == nil {
			observed = append(observed, operation)
		}
	}}
	if _, err := store.Sessions().AppendTurn(t.Context(), question("a", "1")); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(observed, []string{"AppendTurn"}) {
		t.Errorf("observed %q", observed)
	}
}

func order(ctx context.Context, store *agentstore.Store, turn repo.Turn, item string, inTest func() error) error {
	return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		added, err := tx.Sessions().AppendTurn(ctx, turn)
		if err != nil {
			return err
		}
		return agentstore.WithTx(tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO orders VALUES ($1, $2)", added.SessionID.String(), item)
			return err
		}, inTest)
	})
}

func TestRecipeEffects(t *testing.T) {
	t.Parallel()
	ordered := 0
	err := order(t.Context(), inMemory(t), question("a", "1"), "a bicycle", func() error { ordered++; return nil })
	if err != nil || ordered != 1 {
		t.Errorf("%d, %v", ordered, err)
	}
}
