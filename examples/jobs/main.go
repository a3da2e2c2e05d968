// Command jobs shows River beside agentstore: plans are the work of agents, and River has what else a service
// does. Both use one pool, so that messages, state and jobs are committed together.
//
//	DATABASE_URL=postgres://… go run .
//
// The database has agentstore's schema (agentstore migrate up). River's tables are made here.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := newService(ctx, pool, func(_ context.Context, mail Mail) error {
		_, err := fmt.Println("mail about", mail.SessionID)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = s.store.Close() }()
	if err := s.jobs.Start(ctx); err != nil {
		return err
	}
	session, err := s.store.Sessions().Create(ctx, repo.NewSession{})
	if err == nil {
		err = s.post(ctx, session.ID, "hello")
	}
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, s.jobs.Stop(ending))
}

// Mail is the job that sends a mail about a session.
type Mail struct {
	SessionID string `json:"session_id"`
}

// Kind implements river.JobArgs.
func (Mail) Kind() string { return "mail" }

// Expire is the job that deletes the sessions that were made before a time.
type Expire struct {
	Before time.Time `json:"before"`
}

// Kind implements river.JobArgs.
func (Expire) Kind() string { return "expire" }

// service has the store and River's client on one pool.
type service struct {
	store *agentstore.Store
	jobs  *river.Client[pgx.Tx]
}

const (
	// keep is how long sessions are kept.
	keep = 90 * 24 * time.Hour
	// mails is how many are sent at once, by all processes together.
	mails = 2
)

func newService(ctx context.Context, pool *pgxpool.Pool, send func(context.Context, Mail) error) (*service, error) {
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	store, err := agentstore.OpenPool(ctx, pool, agentstore.Options{})
	if err != nil {
		return nil, err
	}
	s := &service{store: store}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[Mail]) error { return s.mail(ctx, job, send) }))
	river.AddWorker(workers, river.WorkFunc(s.expire))
	nightly := river.NewPeriodicJob(river.PeriodicInterval(24*time.Hour), func() (river.JobArgs, *river.InsertOpts) {
		return Expire{Before: time.Now().Add(-keep)}, nil
	}, &river.PeriodicJobOpts{RunOnStart: true})
	s.jobs, err = river.NewClient(driver, &river.Config{
		Workers: workers, PeriodicJobs: []*river.PeriodicJob{nightly},
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
	})
	if err != nil {
		_ = store.Close()
	}
	return s, err
}

// post stores a message, counts it, and has a mail sent: all or nothing.
func (s *service) post(ctx context.Context, session repo.ID, text string) error {
	return s.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error { return s.postIn(ctx, tx, session, text) })
}

func (s *service) postIn(ctx context.Context, tx repo.Repositories, session repo.ID, text string) error {
	_, err := tx.Sessions().AppendTurn(ctx, repo.Turn{
		SessionID: session,
		Messages:  []repo.NewMessage{{Role: repo.RoleUser, Content: text}},
		State:     []repo.StateChange{{Key: "posts", Op: repo.StateIncrement, By: 1}},
	})
	if err != nil {
		return err
	}
	return agentstore.WithTx(tx, func(tx pgx.Tx) error {
		_, err := s.jobs.InsertTx(ctx, tx, Mail{SessionID: session.String()}, nil)
		return err
	}, nil)
}

// mail sends a mail while it holds one of the slots. If there is none, the job is tried again soon, which costs it
// no attempt.
func (s *service) mail(ctx context.Context, job *river.Job[Mail], send func(context.Context, Mail) error) error {
	slot, err := repo.HoldLease(ctx, s.store, repo.NewLease{
		Key: repo.LeaseKey{Kind: "mail", Name: "smtp"}, Slots: mails, TTL: time.Minute, Owner: fmt.Sprintf("job %d, attempt %d", job.ID, job.Attempt),
	})
	if errors.Is(err, repo.ErrConflict) {
		return river.JobSnooze(time.Second)
	}
	if err != nil {
		return err
	}
	defer func() { _ = slot.Release(context.WithoutCancel(ctx)) }()
	return send(slot.Context(), job.Args) //nolint:contextcheck // it is a child of ctx
}

// expire deletes sessions page by page. It may be run again: what is deleted is not found.
func (s *service) expire(ctx context.Context, job *river.Job[Expire]) error {
	for page := (repo.Page{}); ; {
		sessions, err := s.store.Sessions().List(ctx, repo.SessionFilter{AnyOwner: true, CreatedBefore: job.Args.Before}, page)
		if err != nil {
			return err
		}
		for _, session := range sessions.Items {
			if _, err := s.store.Sessions().Delete(ctx, session.ID); err != nil && !errors.Is(err, repo.ErrNotFound) {
				return err
			}
		}
		if page.After = sessions.Next; page.After == "" {
			return nil
		}
	}
}
