// Command refund is an agent's tool that pays: it asks a person, stays within a month's budget, and pays once, although its
// worker may be killed at any moment, and the payment provider fails on purpose. docs/refund.md explains it.
//
//	export DATABASE_URL=postgres://… PROVIDER=127.0.0.1:8081 HONOURS_KEYS=23h
//	go run ./examples/refund provider &
//	go run ./examples/refund work &
//	go run ./examples/refund call 'closes A-17' 2500   # cents
//	go run ./examples/refund decide approve
//	go run ./examples/refund show
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/budget"
	"github.com/seed-df90f812/agentstore/effect"
	"github.com/seed-df90f812/agentstore/examples/refund/provider"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/usage"
)

const (
	tool     = "refund"
	customer = "customer 7" // the key of the session
	decider  = "bob"
	mostFee  = 100             // cents: what the provider charges at most
	again    = 5 * time.Second // after which a worker looks again for a refund whose answer was lost
)

// month is what refunds may cost in a month.
var month = budget.Limit{Name: "refunds", Unit: budget.Money, Period: budget.Month, Max: int64(100 * repo.CostUnit)}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, append(os.Args[1:], "", "", "")); err != nil && ctx.Err() == nil {
		log.Print(err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, arguments []string) error {
	honours := time.Duration(0)
	if text := os.Getenv("HONOURS_KEYS"); text != "" {
		var err error
		if honours, err = time.ParseDuration(text); err != nil {
			return err
		}
	}
	if arguments[0] == "provider" {
		server := &http.Server{Addr: os.Getenv("PROVIDER"), Handler: &provider.Provider{HonoursKeys: honours > 0}, ReadHeaderTimeout: time.Minute}
		context.AfterFunc(ctx, func() { _ = server.Close() })
		return server.ListenAndServe()
	}
	s, err := newService(ctx, os.Getenv("DATABASE_URL"), client{"http://" + os.Getenv("PROVIDER"), honours})
	if err != nil {
		return err
	}
	defer func() { _ = s.store.Close() }()
	switch arguments[0] {
	case "work":
		claim := repo.Claim{Owner: "refund " + repo.NewID().String(), Actions: []string{tool}, TTL: 10 * time.Second, Limit: 4}
		return repo.Work(ctx, s.store, claim, s.refund)
	case "call":
		return s.call(ctx, arguments[1], arguments[2])
	case "decide":
		return s.decide(ctx, approval.Verdict(arguments[1]))
	case "resolve":
		return s.resolve(ctx, arguments[1], arguments[2])
	case "show":
		return s.show(ctx)
	}
	return errors.New("say one of provider, work, call, decide, resolve and show")
}

type service struct {
	store     *agentstore.Store
	approvals *approval.Approvals
	budget    *budget.Keeper
	provider  client
}

func newService(ctx context.Context, url string, provider client) (*service, error) {
	store, err := agentstore.Open(ctx, url, agentstore.Options{Migrate: true})
	if err != nil {
		return nil, err
	}
	s := &service{store: store, provider: provider}
	if s.approvals, err = approval.New(store, "", approval.Options{}); err == nil {
		s.budget, err = budget.New(store, budget.Options{})
	}
	if err == nil {
		_, err = store.Actions().Create(ctx, repo.NewAction{Name: tool, ActionDefinition: repo.ActionDefinition{
			Reusable: true, Phases: []repo.Phase{repo.PhaseExecute}, MaxAttempts: 100,
		}})
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return s, nil
}

// call stands for the model that calls the tool. It prints the id of the call.
func (s *service) call(ctx context.Context, order, amount string) error {
	n, err := strconv.ParseInt(amount, 10, 64)
	if err != nil {
		return err
	}
	id := repo.NewID().String()
	turn, err := arguments{Order: order, Cents: n}.turn(id)
	if err == nil {
		_, err = s.store.Sessions().AppendTurn(ctx, turn)
	}
	if err == nil {
		fmt.Println(id)
	}
	return err
}

// decide stands for the page on which people decide. It prints what it has decided.
func (s *service) decide(ctx context.Context, verdict approval.Verdict) error {
	open, err := s.approvals.List(ctx, decider, repo.Page{})
	for _, request := range open.Items {
		fmt.Println(request.Text)
		_, failed := s.approvals.Decide(ctx, decider, approval.Answer{Ref: request.Ref, Verdict: verdict})
		err = errors.Join(err, failed)
	}
	return err
}

// resolve stores what the provider's books say about an unknown refund: its receipt, or "lost" if it was not made, and will
// not be.
func (s *service) resolve(ctx context.Context, id, receipt string) error {
	session, err := s.store.Sessions().Find(ctx, repo.SessionKey{Key: customer})
	if err != nil {
		return err
	}
	answer := effect.DidNotHappen()
	if receipt != "lost" {
		if err := checkReceipt([]byte(receipt)); err != nil {
			return err
		}
		answer = effect.Happened(json.RawMessage(receipt))
	}
	_, err = effect.Resolve(ctx, s.store, effect.Key{Session: session, Call: id}, answer)
	return err
}

// show prints the transcript, the effects, the budget and the usage.
func (s *service) show(ctx context.Context) error {
	session, err := s.store.Sessions().Find(ctx, repo.SessionKey{Key: customer})
	if err != nil {
		return err
	}
	for m, err := range s.store.Sessions().Messages(ctx, session, 0) {
		if err != nil {
			return err
		}
		fmt.Println(m.Kind, m.CallID, m.Content+string(m.Payload))
	}
	effects, err := effect.List(ctx, s.store, session, repo.Page{})
	if err != nil {
		return err
	}
	for _, e := range effects.Items {
		fmt.Println("effect", e.Call, e.State)
	}
	used, err := s.budget.Used(ctx, month)
	if err != nil {
		return err
	}
	today := usage.DayOf(time.Now(), time.UTC)
	rows, err := usage.Report(ctx, s.store.State(), usage.Query{From: today, To: today})
	for _, row := range rows {
		fmt.Println("usage", row.Uses, row.Cost)
	}
	fmt.Println("budget", repo.Cost(used))
	return err
}
