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
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
)

//go:embed index.html
var page []byte

type chat struct{ *agentstore.Store }

// login makes each browser a user. Yours takes its place.
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

// key names a conversation of the user's: nobody finds another user's by it.
func key(r *http.Request) repo.SessionKey {
	return repo.SessionKey{Namespace: "chat", Key: repo.JoinKey(r.PathValue("user"), r.PathValue("id"))}
}

func (c chat) ask(w http.ResponseWriter, r *http.Request) {
	id, text := r.PathValue("question"), r.FormValue("text")
	title, _ := json.Marshal(map[string]string{"id": r.PathValue("id"), "title": fmt.Sprintf("%.50s", text)})
	turn := repo.Turn{ID: id, Existing: text == "", Create: &repo.NewSession{Namespace: "chat", Key: key(r).Key, Owner: r.PathValue("user"), Metadata: title}}
	if text != "" {
		turn.Messages = []repo.NewMessage{{Role: repo.RoleUser, Content: text, Metadata: fmt.Appendf(nil, `{"id":%q}`, id)}}
	}
	if !r.Form.Has("show") {
		turn.Action, turn.Use.Name = "answer", id
	}
	if after, err := strconv.ParseInt(r.FormValue("after"), 10, 64); err == nil {
		turn.After = &after
	}
	asked, err := c.Sessions().AppendTurn(r.Context(), turn)
	if err == nil && asked.Plan != nil && asked.Plan.State == repo.PlanErrored {
		_, err = c.Plans().Transition(r.Context(), asked.Plan.ID, repo.TransitionResume, repo.Cause{Version: asked.Plan.Version})
	}
	respond(w, nil, err)
}

func (c chat) answer(ctx context.Context, claimed repo.ClaimedPlan) error {
	session, id := claimed.Plan.SessionID, claimed.Plan.Name
	question, err := c.Sessions().Turn(ctx, session, strings.Split(id, ".")[0])
	if err != nil || len(question.Messages) == 0 {
		return err
	}
	messages, err := c.Sessions().MessagesBefore(ctx, session, question.Messages[0].Sequence+1, 50)
	if err != nil {
		return err
	}
	stream, err := c.Streams().Open(ctx, repo.NewStream{Key: session.String() + "/" + id, Session: session, Owner: "chat", Restart: true})
	if err != nil {
		return err
	}
	parts, answer := live.NewPartWriter(ctx, c.Streams(), stream), ""
	err = model(ctx, messages, func(part string) error {
		answer += part
		return parts.Write(ctx, []byte(part))
	})
	if err = errors.Join(err, parts.Flush(ctx)); err == nil {
		_, err = c.Sessions().AppendTurn(ctx, repo.Turn{
			SessionID: session, ID: "answer " + id, Existing: true, Head: &question.Messages[0].Sequence,
			Messages: []repo.NewMessage{{Role: repo.RoleAssistant, Content: answer, Metadata: fmt.Appendf(nil, `{"id":%q}`, id)}},
		})
	}
	if errors.As(err, new(*repo.SequenceConflictError)) {
		return parts.Fail(ctx, "replaced")
	}
	if err == nil {
		return parts.Finish(ctx)
	}
	_ = parts.Fail(ctx, "interrupted") // nothing, if ctx has ended
	return err
}

// model gets messages, newest first, and emits the parts of an answer, none of them empty. Yours takes its place.
func model(ctx context.Context, messages []repo.Message, emit func(string) error) error {
	for word := range strings.SplitAfterSeq("You said: “"+messages[0].Content+"”. I find that there is a lot in it.", " ") {
		time.Sleep(200 * time.Millisecond)
		if err := errors.Join(ctx.Err(), emit(word)); err != nil {
			return err
		}
	}
	return nil
}

func (c chat) authorize(r *http.Request) (live.Target, error) {
	id, err := c.Sessions().Find(r.Context(), key(r))
	return live.Target{Session: id, Reader: r.PathValue("user")}, err
}

func (c chat) list(w http.ResponseWriter, r *http.Request) {
	page, err := c.Sessions().List(r.Context(), repo.SessionFilter{Namespace: "chat", Owner: r.PathValue("user"), ByActivity: true}, repo.Page{})
	titles := []json.RawMessage{}
	for _, session := range page.Items {
		titles = append(titles, session.Metadata)
	}
	respond(w, titles, err)
}

func respond(w http.ResponseWriter, result any, err error) {
	if err == nil {
		_ = json.NewEncoder(w).Encode(result)
	} else if errors.Is(err, repo.ErrInvalid) || errors.Is(err, repo.ErrConflict) {
		http.Error(w, err.Error(), http.StatusConflict)
	} else {
		http.Error(w, "try again", http.StatusServiceUnavailable)
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	store, err := agentstore.Open(ctx, cmp.Or(os.Getenv("DATABASE_URL"), "memory://chat"), agentstore.Options{Migrate: true})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Actions().Create(ctx, repo.NewAction{Name: "answer", ActionDefinition: repo.ActionDefinition{Reusable: true, MaxAttempts: 5}}); err != nil {
		log.Fatal(err)
	}
	c, running := chat{store}, new(sync.WaitGroup)
	claim := repo.Claim{Owner: "chat " + repo.NewID().String(), Actions: []string{"answer"}, TTL: 10 * time.Second, Limit: 8}
	running.Go(func() { log.Print("worker: ", repo.Work(ctx, c, claim, c.answer)); stop() })
	feed, err := live.New(c, live.Options{Authorize: c.authorize})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	mux.HandleFunc("GET /conversations", c.list)
	mux.HandleFunc("PUT /conversations/{id}/{question}", c.ask)
	mux.Handle("GET /conversations/{id}", feed)
	server := &http.Server{Addr: cmp.Or(os.Getenv("ADDRESS"), "127.0.0.1:8080"), ReadHeaderTimeout: time.Minute}
	server.Handler = http.MaxBytesHandler(http.NewCrossOriginProtection().Handler(login(mux)), 64<<10)
	running.Go(func() { log.Print("open http://", server.Addr); log.Print("server: ", server.ListenAndServe()); stop() })
	<-ctx.Done()
	_ = errors.Join(feed.Shutdown(context.Background()), server.Shutdown(context.Background()))
	running.Wait()
}
