package faults

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// writerEnv passes a writer process its task, as JSON.
const writerEnv = "AGENTSTORE_TEST_FAULTS_WRITER"

type writerTask struct {
	DatabaseURL string
	Sessions    []repo.ID
}

// runWriter writes until the process is killed. It prints each message before it
// first sends it and after it was acknowledged, one on each line, without buffering.
func runWriter(ctx context.Context, task writerTask) error {
	store, err := agentstore.Open(ctx, task.DatabaseURL, agentstore.Options{MaxConns: 8})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(os.Stdout, line)
	}
	l := newLoad(store.Sessions(), task.Sessions)
	l.onBegin = func(session, message repo.ID) { say(fmt.Sprint("begin ", session, " ", message, " 0")) }
	l.onAck = func(a acknowledgement) { say(fmt.Sprint("ack ", a.session, " ", a.message, " ", a.sequence)) }
	l.start(ctx)
	l.running.Wait()
	return fmt.Errorf("the writers have ended: %v", l.failures)
}

// killWriter starts a process with 32 more writers, kills it when messages of it were
// acknowledged, and sends those again that were not.
func killWriter(t *testing.T, s *scene) func() {
	t.Helper()
	command := pgtest.Again(t.Context(), writerEnv, writerTask{s.url, s.ids})
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	open := map[repo.ID]repo.ID{} // sessions by message
	count := 0
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var verb string
		var sessionText, messageText string
		var sequence int64
		if _, err := fmt.Sscan(lines.Text(), &verb, &sessionText, &messageText, &sequence); err != nil {
			break // an incomplete line
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
				t.Error("a message of the killed client was not delivered")
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
