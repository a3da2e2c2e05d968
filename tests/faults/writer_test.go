package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// writerEnv carries what a writer process writes to, as JSON.
const writerEnv = "AGENTSTORE_TEST_FAULTS_WRITER"

type writerTask struct {
	DatabaseURL string
	Sessions    []repo.ID
}

// writerMain writes until the process is killed. It prints each message before
// it is sent the first time and after it was acknowledged, a line each, written
// at once.
func writerMain() int {
	var task writerTask
	if err := json.Unmarshal([]byte(os.Getenv(writerEnv)), &task); err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		return 2
	}
	ctx := context.Background()
	store, err := agentstore.Open(ctx, task.DatabaseURL, agentstore.Options{MaxConns: 8})
	if err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		return 1
	}
	var mu sync.Mutex
	say := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(os.Stdout, line)
	}
	l := &load{
		sessions:    store.Sessions(),
		ids:         task.Sessions,
		callTimeout: time.Minute,
		onBegin:     func(session, message repo.ID) { say(fmt.Sprint("begin ", session, " ", message, " 0")) },
		onAck:       func(a acknowledgement) { say(fmt.Sprint("ack ", a.session, " ", a.message, " ", a.sequence)) },
	}
	l.start(ctx)
	l.running.Wait()
	fmt.Fprintln(os.Stderr, "writer: ended:", l.failures)
	return 1
}

// killWriter starts a process with 32 writers more, kills it when it has had
// messages acknowledged, and sends again what it had not.
func killWriter(t *testing.T, s *scene) func() {
	t.Helper()
	encoded, err := json.Marshal(writerTask{s.url, s.ids})
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), binary)
	command.Env = append(os.Environ(), writerEnv+"="+string(encoded))
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	open := map[repo.ID]repo.ID{} // message to session
	count := 0
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var verb string
		var sessionText, messageText string
		var sequence int64
		if _, err := fmt.Sscan(lines.Text(), &verb, &sessionText, &messageText, &sequence); err != nil {
			break // cut off in the middle
		}
		session, message := mustParse(sessionText), mustParse(messageText)
		if verb == "begin" {
			open[message] = session
			continue
		}
		delete(open, message)
		s.acknowledge(acknowledgement{session, message, sequence})
		if count++; count == 200 {
			if err := command.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	_ = command.Wait() // it was killed
	if count < 200 || len(open) == 0 {
		t.Errorf("killed after %d acknowledgements with %d messages under way", count, len(open))
	}
	return func() {
		for message, session := range open {
			if !s.deliver(t.Context(), 0, session, message) {
				t.Error("a message of the killed client is not delivered")
			}
		}
	}
}

func mustParse(text string) repo.ID {
	id, err := repo.ParseID(text)
	if err != nil {
		panic(err)
	}
	return id
}
