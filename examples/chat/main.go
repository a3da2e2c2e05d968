// The command chat is the chat backend of docs/tutorial.md. It may be copied.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/share"
)

//go:embed index.html
var page []byte

// namespace has the conversations. The actions and their plans are in the default one.
const namespace = "chat"

type chat struct {
	*agentstore.Store

	pictures *files.Files
	links    *share.Links
}

func newChat(store *agentstore.Store) (chat, error) {
	pictures, err := newPictures(store)
	if err != nil {
		return chat{}, err
	}
	links, err := share.New(store.In(namespace))
	return chat{store, pictures, links}, err
}

// login makes each browser a user. Replace it with your own.
func login(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("user")
		if err != nil || cookie.Value == "" {
			//nolint:gosec // not Secure, because this is plain HTTP
			cookie = &http.Cookie{Name: "user", Value: rand.Text(), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}
			http.SetCookie(w, cookie)
		}
		r.SetPathValue("user", cookie.Value)
		next.ServeHTTP(w, r)
	})
}

// key names one of the user's own conversations.
func key(r *http.Request) repo.SessionKey {
	return repo.SessionKey{Namespace: namespace, Key: repo.JoinKey(r.PathValue("user"), r.PathValue("id"))}
}

// ask stores a question, and queues its answer.
func (c chat) ask(w http.ResponseWriter, r *http.Request) {
	turn := questionOf(r)
	if err := c.attach(r, &turn); err != nil {
		respond(w, nil, err)
		return
	}
	asked, err := c.Sessions().AppendTurn(r.Context(), turn)
	if err == nil && asked.Plan != nil && asked.Plan.State == repo.PlanErrored {
		_, err = c.Plans().Transition(r.Context(), asked.Plan.ID, repo.TransitionResume, repo.Cause{Version: asked.Plan.Version})
	}
	respond(w, nil, err)
}

// questionOf returns the turn of a question. The page has made its id.
func questionOf(r *http.Request) repo.Turn {
	id, text := r.PathValue("question"), r.FormValue("text")
	turn := repo.Turn{ID: id, Create: conversation(r, text)}
	if text != "" {
		turn.Messages = []repo.NewMessage{{Role: repo.RoleUser, Content: text, Metadata: fmt.Appendf(nil, `{"id":%q}`, id)}}
	} else {
		turn.Existing = true // another answer, or another branch: the id alone decides
	}
	if after, err := strconv.ParseInt(r.FormValue("after"), 10, 64); err == nil {
		turn.After = &after
	}
	if !r.Form.Has("show") {
		turn.Action, turn.Use.Name = "answer", id
	}
	return turn
}

// conversation returns the session that a first question creates.
func conversation(r *http.Request, text string) *repo.NewSession {
	title, _ := json.Marshal(map[string]string{"id": r.PathValue("id"), "title": fmt.Sprintf("%.50s", text)})
	return &repo.NewSession{Namespace: key(r).Namespace, Key: key(r).Key, Owner: r.PathValue("user"), Metadata: title}
}

// answer is the work of a plan: one answer of the model.
func (c chat) answer(ctx context.Context, claimed repo.ClaimedPlan) error {
	session, id := claimed.Plan.SessionID, claimed.Plan.Name
	asked, err := c.Sessions().Turn(ctx, session, strings.Split(id, ".")[0]) // another answer of "a" is "a.…"
	if err != nil || len(asked.Messages) == 0 || asked.Messages[0].Kind == repo.KindRedacted {
		return err
	}
	question := asked.Messages[0].Sequence
	messages, err := c.Sessions().MessagesBefore(ctx, session, question+1, 50)
	if err != nil {
		return err
	}
	stream, err := c.Streams().Open(ctx, repo.NewStream{Key: session.String() + "/" + id, Session: session, Owner: "chat", Restart: true})
	if err != nil {
		return err
	}
	parts := live.NewPartWriter(ctx, c.Streams(), stream)
	text, err := generate(ctx, messages, parts)
	if err == nil {
		err = c.keep(ctx, session, id, text, question)
	}
	return finish(ctx, parts, err)
}

// generate shows the parts of an answer while the model makes them, and returns its text.
func generate(ctx context.Context, messages []repo.Message, parts *live.PartWriter) (text string, err error) {
	err = model(ctx, messages, func(part string) error {
		text += part
		return parts.Write(ctx, []byte(part))
	})
	return text, errors.Join(err, parts.Flush(ctx))
}

// keep stores the finished answer behind its question.
func (c chat) keep(ctx context.Context, session repo.ID, id, text string, question int64) error {
	_, err := c.Sessions().AppendTurn(ctx, repo.Turn{
		SessionID: session, ID: "answer " + id, Existing: true, Head: &question,
		Messages: []repo.NewMessage{{Role: repo.RoleAssistant, Content: text, Metadata: fmt.Appendf(nil, `{"id":%q}`, id)}},
	})
	return err
}

// finish ends the stream of an answer.
func finish(ctx context.Context, parts *live.PartWriter, err error) error {
	switch {
	case err == nil:
		return parts.Finish(ctx)
	case errors.As(err, new(*repo.SequenceConflictError)):
		return parts.Fail(ctx, "replaced") // the question was edited meanwhile
	default:
		_ = parts.Fail(ctx, "interrupted") // it does nothing if ctx has ended
		return err
	}
}

// model gets messages, newest first, and emits the parts of an answer, none of them empty. files.References has the
// pictures of a message. Replace it with your own.
func model(ctx context.Context, messages []repo.Message, emit func(string) error) error {
	for word := range strings.SplitAfterSeq("You said: “"+messages[0].Content+"”. I find that there is a lot in it.", " ") {
		time.Sleep(200 * time.Millisecond)
		if err := errors.Join(ctx.Err(), emit(word)); err != nil {
			return err
		}
	}
	return nil
}

// authorize says which conversation a feed shows.
func (c chat) authorize(r *http.Request) (live.Target, error) {
	id, err := c.Sessions().Find(r.Context(), key(r))
	return live.Target{Session: id, Reader: r.PathValue("user")}, err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	store, err := open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	c, err := newChat(store)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	running := new(sync.WaitGroup)
	running.Go(func() { c.sweep(ctx) })
	claim := repo.Claim{Owner: "chat " + repo.NewID().String(), Actions: []string{"answer"}, TTL: 10 * time.Second, Limit: 8}
	running.Go(func() { log.Print("worker: ", repo.Work(ctx, c, claim, c.answer)); stop() })
	feed, err := live.New(c, live.Options{Authorize: c.authorize})
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: cmp.Or(os.Getenv("ADDRESS"), "127.0.0.1:8080"), Handler: c.handler(feed), ReadHeaderTimeout: time.Minute}
	running.Go(func() { log.Print("open http://", server.Addr); log.Print("server: ", server.ListenAndServe()); stop() })
	<-ctx.Done()
	_ = errors.Join(feed.Shutdown(context.Background()), server.Shutdown(context.Background()))
	running.Wait()
}

// open opens the store, and makes the action of which each answer is a plan.
func open(ctx context.Context) (*agentstore.Store, error) {
	store, err := agentstore.Open(ctx, cmp.Or(os.Getenv("DATABASE_URL"), "memory://chat"), agentstore.Options{Migrate: true})
	if err != nil {
		return nil, err
	}
	answer := repo.NewAction{Name: "answer", ActionDefinition: repo.ActionDefinition{Reusable: true, MaxAttempts: 5}}
	if _, err := store.Actions().Create(ctx, answer); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}
