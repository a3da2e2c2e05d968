// Command client is a service under load for the tests of rolling upgrades. They
// build it as it was at an older commit, with the library of that commit, and run it
// on a database that a newer library migrates. It uses only calls that all releases
// have.
//
// It works until its standard input ends. It prints a line for each round of calls,
// and a report at the end.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
)

const (
	writers = 4
	action  = "local/rolling"
)

// report says what the client did. FirstFailure is empty if nothing failed.
type report struct {
	Appended     int64  `json:"appended"` // acknowledged messages of the shared session
	Failures     int64  `json:"failures"`
	FirstFailure string `json:"first_failure"`
}

func main() {
	session := flag.String("session", "", "append to this session, which all clients share")
	migrate := flag.Bool("migrate", false, "open the store with Options.Migrate")
	flag.Parse()
	if err := run(*session, *migrate); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(session string, migrate bool) (err error) {
	ctx := context.Background()
	shared, err := repo.ParseID(session)
	if err != nil {
		return err
	}
	store, err := agentstore.Open(ctx, os.Getenv("DATABASE_URL"), agentstore.Options{Migrate: migrate})
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := store.Close(); err == nil {
			err = closeErr
		}
	}()
	var stop atomic.Bool
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop.Store(true)
	}()

	sealer, err := audit.NewSealer(store.AuditStore(), audit.SealerOptions{})
	if err != nil {
		return err
	}
	c := &client{store: store, sealer: sealer, shared: shared}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	var rounds atomic.Int64
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for !stop.Load() {
				if err := c.round(ctx); err != nil {
					c.failed(err)
				}
				fmt.Println(rounds.Add(1))
			}
		})
	}
	wg.Wait()
	return json.NewEncoder(os.Stdout).Encode(c.report)
}

type client struct {
	store  *agentstore.Store
	sealer *audit.Sealer
	shared repo.ID
	mu     sync.Mutex
	report report
}

func (c *client) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Failures++
	if c.report.FirstFailure == "" {
		c.report.FirstFailure = err.Error()
	}
}

// prepare makes the action of which the plans are uses, where it is not there.
func (c *client) prepare(ctx context.Context) error {
	_, err := c.store.Actions().Create(ctx, repo.NewAction{Name: action, ActionDefinition: repo.ActionDefinition{
		Description: "rolling upgrades", DefinitionOfDone: "nothing failed", Reusable: true,
	}})
	if errors.Is(err, repo.ErrConflict) { // another client made it
		return nil
	}
	return err
}

// round makes one call of each kind.
func (c *client) round(ctx context.Context) error {
	message := repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: "é"}
	if _, err := c.store.Sessions().Append(ctx, c.shared, message, repo.NewMessage{Role: repo.RoleAssistant, Content: "x"}); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	c.mu.Lock()
	c.report.Appended += 2
	c.mu.Unlock()
	if _, err := c.store.Sessions().LastMessages(ctx, c.shared, 10); err != nil {
		return fmt.Errorf("last messages: %w", err)
	}
	session, err := c.store.Sessions().Create(ctx, repo.NewSession{Actor: "rolling/client"})
	if err != nil {
		return fmt.Errorf("create a session: %w", err)
	}
	if err := c.inSession(ctx, session.ID); err != nil {
		return err
	}
	if _, err := c.store.Sessions().Delete(ctx, session.ID); err != nil {
		return fmt.Errorf("delete a session: %w", err)
	}
	return nil
}

func (c *client) inSession(ctx context.Context, id repo.ID) error {
	if _, err := c.store.Sessions().AppendAt(ctx, id, 0, repo.NewMessage{Role: repo.RoleUser, Content: "x"}); err != nil {
		return fmt.Errorf("append at: %w", err)
	}
	if _, err := c.store.Sessions().List(ctx, repo.SessionFilter{Actor: "rolling/client"}, repo.Page{Limit: 10}); err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	plan, err := c.store.Plans().Use(ctx, action, repo.UseAction{SessionID: id})
	if err != nil {
		return fmt.Errorf("use: %w", err)
	}
	for _, transition := range []repo.Transition{repo.TransitionStart, repo.TransitionCancel} {
		if _, err := c.store.Plans().Transition(ctx, plan.ID, transition, repo.Cause{Actor: "rolling/client", Reason: "rolling"}); err != nil {
			return fmt.Errorf("%s: %w", transition, err)
		}
	}
	err = c.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.Sessions().Append(ctx, id, repo.NewMessage{Role: repo.RoleUser, Content: "y"}); err != nil {
			return err
		}
		return tx.Audit().Record(ctx, repo.AuditEntry{Type: repo.EventDecisionPoint, SessionID: id})
	})
	if err != nil {
		return fmt.Errorf("in a transaction: %w", err)
	}
	if _, err := c.store.Sessions().AddUsage(ctx, id, repo.NewUsage{ID: repo.NewID(), InputTokens: 1}); err != nil {
		return fmt.Errorf("add usage: %w", err)
	}
	// A month of which there may be no partition yet.
	earlier := repo.AuditEntry{Type: repo.EventDecisionPoint, SessionID: id, OccurredAt: time.Now().AddDate(0, -rand.IntN(40), 0)}
	if err := c.store.Audit().Record(ctx, earlier); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	// Others seal, too: one at a time does.
	if _, err := c.sealer.SealOnce(ctx); err != nil && !errors.Is(err, repo.ErrContention) {
		return fmt.Errorf("seal: %w", err)
	}
	if _, err := c.store.Audit().List(ctx, repo.AuditFilter{SessionID: id}, repo.NewestFirst, repo.Page{Limit: 10}); err != nil {
		return fmt.Errorf("list the audit trail: %w", err)
	}
	if err := c.store.Sessions().Export(ctx, id, io.Discard); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}
