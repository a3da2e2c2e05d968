package effect

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const remoteVariable = "AGENTSTORE_TEST_EFFECT_REMOTE"

// remoteTask says whether a remote honours idempotency keys.
type remoteTask struct{ Honours bool }

// remote is a payment provider.
type remote struct {
	remoteTask

	mu       sync.Mutex
	payments map[string][]string // by call: the keys that were paid for
	requests map[string]int      // by call
	receipts map[string]string   // by key
	under    int                 // requests under way
	gone     *sync.Cond          // when one is not any more
	release  chan struct{}       // closed: what is held goes on
}

// runRemote serves a remote, and writes its address, and then each call that it holds.
func runRemote(task remoteTask) error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r := &remote{remoteTask: task, payments: map[string][]string{}, requests: map[string]int{}, receipts: map[string]string{}, release: make(chan struct{})}
	r.gone = sync.NewCond(&r.mu)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /pay", r.pay)
	mux.HandleFunc("POST /release", r.releaseAll)
	mux.HandleFunc("GET /payments", r.list)
	mux.HandleFunc("DELETE /payments", r.forget)
	fmt.Println(listener.Addr())
	return http.Serve(listener, mux)
}

// pay pays. The caller may ask for trouble: to be held before the payment, or after it, or an answer that is none.
func (r *remote) pay(w http.ResponseWriter, request *http.Request) {
	call, key, hold := request.FormValue("call"), request.FormValue("key"), request.FormValue("hold")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.under++
	r.requests[call]++
	release := r.release
	held := func(at string) {
		if hold == at {
			fmt.Println(call)
			r.mu.Unlock()
			<-release
			r.mu.Lock()
		}
	}
	held("before")
	receipt, known := r.receipts[key]
	if !known || !r.Honours {
		r.payments[call] = append(r.payments[call], key)
		receipt = fmt.Sprintf(`{"receipt":"%s/%d"}`, call, len(r.payments[call]))
		r.receipts[key] = receipt
	}
	held("after")
	if hold == "fail" {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = io.WriteString(w, receipt)
	r.under--
	r.gone.Broadcast()
}

// releaseAll lets what is held go on, and answers when nothing is under way any more.
func (r *remote) releaseAll(http.ResponseWriter, *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.release)
	r.release = make(chan struct{})
	for r.under > 0 {
		r.gone.Wait()
	}
}

// paid is what a remote says of its payments.
type paid struct {
	Payments map[string][]string
	Requests map[string]int
}

func (r *remote) list(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = json.NewEncoder(w).Encode(paid{r.payments, r.requests})
}

// forget forgets the payments, before the next batch has the same calls.
func (r *remote) forget(http.ResponseWriter, *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.payments)
	clear(r.requests)
	clear(r.receipts)
}

// client is a remote's process, as the test has it.
type client struct {
	addr string
	held chan string
}

func startRemote(t *testing.T, honours bool) *client {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	command := pgtest.Again(ctx, remoteVariable, remoteTask{honours})
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	if !lines.Scan() {
		t.Fatal("the remote has not started")
	}
	c := &client{addr: lines.Text(), held: make(chan string)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines.Scan() {
			select {
			case c.held <- lines.Text():
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = command.Wait()
	})
	return c
}

func (c *client) ask(ctx context.Context, method, path string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+c.addr+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if answer == nil {
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// paid returns what the remote was paid, by call.
func (c *client) paid(t *testing.T) (p paid) {
	t.Helper()
	if err := c.ask(t.Context(), http.MethodGet, "/payments", &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// pay calls a remote. arrived is called when the answer is there, and not read yet.
func pay(ctx context.Context, addr, call, key, hold string, arrived func()) (json.RawMessage, error) {
	form := strings.NewReader(fmt.Sprintf("call=%s&key=%s&hold=%s", call, key, hold))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/pay", form)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	arrived()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the remote says %s", response.Status)
	}
	return answer, err
}
