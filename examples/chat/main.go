// The command chat shows a conversation that several browsers see at once, with answers
// that are streamed while they are made:
//
//	go run ./examples/chat
//
// Open the page that it prints in two windows, write, and reload one in the middle of an answer.
// Without DATABASE_URL it keeps everything in memory; with it, several of these processes can serve one
// conversation. The model is not real: it repeats what it is told.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
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

const (
	// cookie names a browser. A real service has users here, who have logged in.
	cookie = "agentstore-chat"
	// pause is between two parts of an answer.
	pause = 100 * time.Millisecond
	// readTimeout bounds the header of a request, and shutdownTimeout the end of the process.
	readTimeout, shutdownTimeout = time.Minute, time.Minute
)

func main() {
	address := flag.String("addr", "127.0.0.1:8080", "where to listen")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address string) error {
	store, err := agentstore.Open(ctx, cmp.Or(os.Getenv("DATABASE_URL"), "memory://chat"), agentstore.Options{Migrate: true})
	if err != nil {
		return err
	}
	defer store.Close()
	session, err := store.Sessions().Create(ctx, repo.NewSession{Namespace: "examples", Key: "chat"})
	if err != nil {
		return err
	}
	chat := &chat{store: store, session: session.ID}
	handler, err := live.New(store, live.Options{Authorize: chat.authorize})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", chat.page)
	mux.HandleFunc("POST /messages", chat.post)
	mux.Handle("GET /messages", handler)
	mux.Handle("GET /answers/{id}", handler)

	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.NewCrossOriginProtection().Handler(mux), ReadHeaderTimeout: readTimeout}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Printf("http://%s\n", listener.Addr())
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// First the responses that would not end by themselves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err = errors.Join(handler.Shutdown(ctx), server.Shutdown(ctx))
	chat.answering.Wait()
	return err
}

// chat is one conversation.
type chat struct {
	store   *agentstore.Store
	session repo.ID
	// answering are the answers under way.
	answering sync.WaitGroup
}

// page serves the page, and gives its browser a name.
func (c *chat) page(w http.ResponseWriter, r *http.Request) {
	if _, err := r.Cookie(cookie); err != nil {
		//nolint:gosec // not Secure, because this is plain HTTP
		http.SetCookie(w, &http.Cookie{Name: cookie, Value: repo.NewID().String(), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page)
}

// authorize lets browsers with a name read the session, and the streams of answers.
func (c *chat) authorize(r *http.Request) (live.Target, error) {
	browser, err := r.Cookie(cookie)
	if err != nil {
		return live.Target{}, &live.StatusError{Status: http.StatusUnauthorized, Err: err}
	}
	if id := r.PathValue("id"); id != "" {
		return live.Target{Stream: c.streamKey(id), Reader: browser.Value}, nil
	}
	return live.Target{Session: c.session, Reader: browser.Value}, nil
}

func (c *chat) streamKey(id string) string { return repo.JoinKey("chat", c.session.String(), id) }

// post stores a message, and begins to answer it. The call id of both messages is the name of the stream.
func (c *chat) post(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	text := strings.TrimSpace(r.FormValue("text"))
	if _, err := r.Cookie(cookie); err != nil || text == "" || len(text) > 1000 {
		http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
		return
	}
	id := repo.NewID().String()
	// The stream first: whoever sees the message finds it.
	stream, err := c.store.Streams().Open(r.Context(), repo.NewStream{Key: c.streamKey(id), Owner: "chat"})
	if err == nil {
		_, err = c.store.Sessions().Append(r.Context(), c.session, repo.NewMessage{Role: repo.RoleUser, Content: text, CallID: id})
	}
	if err != nil {
		log.Print(err)
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	c.answering.Go(func() { //nolint:contextcheck // it outlives the request
		ctx := context.WithoutCancel(r.Context())
		if err := c.answer(ctx, stream, id, model(text)); err != nil {
			log.Print(errors.Join(err, c.store.Streams().Fail(ctx, stream, "interrupted")))
		}
	})
	w.WriteHeader(http.StatusNoContent)
}

// answer adds the parts of an answer to its stream. At the end the stream is finished and the whole
// answer is appended to the session, both or neither.
func (c *chat) answer(ctx context.Context, stream repo.Stream, id string, parts []string) error {
	writer := repo.NewPartWriter(ctx, c.store.Streams(), stream)
	for _, part := range parts {
		time.Sleep(pause)
		if err := writer.Write(ctx, []byte(part)); err != nil {
			return err
		}
	}
	if err := writer.Flush(ctx); err != nil {
		return err
	}
	return c.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		_, err := tx.Sessions().Append(ctx, c.session, repo.NewMessage{Role: repo.RoleAssistant, Content: strings.Join(parts, ""), CallID: id})
		if err != nil {
			return err
		}
		return tx.Streams().Finish(ctx, writer.Stream())
	})
}

// model returns an answer in parts.
func model(text string) []string {
	return strings.SplitAfter("You said: “"+text+"”. I have thought about it for a while, and I find that there is a lot in it.", " ")
}
