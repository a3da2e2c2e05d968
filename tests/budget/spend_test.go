package budget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/budget"
	"github.com/seed-df90f812/agentstore/repo"
)

// taskVariable passes the task to a process that spends.
const taskVariable = "AGENTSTORE_TEST_BUDGET_TASK"

// task is the work of one process: each of its writers makes calls, one after the other. It reserves 1 to 5 tokens for
// each, of which some use one. So they reserve at the limit all the time.
type task struct {
	DatabaseURL string
	Naive       bool
	Process     string
	Writers     int
	Calls       int           // of a writer
	PerName     int           // of a writer under one tenant, before it goes on with the next
	For         time.Duration // instead of Calls
	Life        time.Duration
}

const maxTokens = 60

// done is what a process prints at its end.
type done struct{ Reserved, Refused int64 }

func tenant(n int) budget.Limit {
	return budget.Limit{Name: repo.JoinKey("tenant", fmt.Sprint(n)), Unit: budget.Tokens, Period: budget.Month, Zone: "Europe/Berlin", Max: maxTokens}
}

// call is a call under a tenant's limit that reserves and then uses so many tokens.
type call struct {
	writer     int
	id         string
	limit      budget.Limit
	most, used int64
}

// way makes a call. It reports false if it was refused.
type way func(context.Context, call) (bool, error)

func spend(encoded string) error {
	var t task
	if err := json.Unmarshal([]byte(encoded), &t); err != nil {
		return err
	}
	ctx := context.Background()
	open := t.ours
	if t.Naive {
		open = t.naive
	}
	do, stop, err := open(ctx)
	if err != nil {
		return err
	}
	defer stop()
	var reserved, refused atomic.Int64
	failures := make(chan error, t.Writers)
	var all sync.WaitGroup
	begun := time.Now()
	for w := range t.Writers {
		all.Go(func() {
			for i := 0; t.For > 0 && time.Since(begun) < t.For || t.For == 0 && i < t.Calls; i++ { // pace: as was asked for
				c := call{writer: w, id: fmt.Sprint(t.Process, "-", w, "-", i), limit: tenant(i / t.PerName), most: int64(1 + (w+i)%5)}
				if t.For > 0 { // so that all are under the same one, whatever their pace
					c.limit = tenant(int(time.Now().Unix() / 2))
				}
				if w%4 == 0 && i%t.PerName == 0 {
					c.used = 1
				}
				ok, err := do(ctx, c)
				switch {
				case err != nil:
					failures <- fmt.Errorf("process %s, writer %d, call %d: %w", t.Process, w, i, err)
					return
				case ok:
					reserved.Add(1)
				default:
					refused.Add(1)
				}
			}
		})
	}
	all.Wait()
	close(failures)
	if err := <-failures; err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(done{reserved.Load(), refused.Load()})
}

// ours reserves in the turn of the question, one of four writers before it, and settles in the turn of the answer, which
// says what was used.
func (t task) ours(ctx context.Context) (way, func(), error) {
	store, err := agentstore.Open(ctx, t.DatabaseURL, agentstore.Options{MaxConns: 8})
	if err != nil {
		return nil, nil, err
	}
	keeper, err := budget.New(store, budget.Options{})
	if err != nil {
		return nil, nil, err
	}
	sessions := make([]repo.ID, t.Writers)
	for i := range sessions {
		session, err := store.Sessions().Create(ctx, repo.NewSession{})
		if err != nil {
			return nil, nil, err
		}
		sessions[i] = session.ID
	}
	return func(ctx context.Context, c call) (bool, error) {
		turn := func(id string, used int64) repo.Turn {
			message := repo.NewMessage{Role: repo.RoleAssistant, Kind: c.limit.Name, Content: fmt.Sprint(used)}
			return repo.Turn{SessionID: sessions[c.writer], ID: id, Messages: []repo.NewMessage{message}}
		}
		request := budget.Request{ID: c.id, Limits: []budget.Limit{c.limit}, Most: budget.Amount{Tokens: c.most}, Life: t.Life}
		var r budget.Reservation
		var err error
		if c.writer%4 == 3 {
			r, err = keeper.Reserve(ctx, request)
		} else {
			_, r, err = keeper.ReserveTurn(ctx, turn("question "+c.id, 0), request)
		}
		if errors.Is(err, repo.ErrLimit) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		_, _, err = keeper.SettleTurn(ctx, turn("answer "+c.id, c.used), r, budget.Use{Amount: budget.Amount{Tokens: c.used}})
		return true, err
	}, func() { _ = store.Close() }, nil
}

// naive sums what there is, compares, and inserts. Each of its writers has a connection.
func (t task) naive(ctx context.Context) (way, func(), error) {
	config, err := pgxpool.ParseConfig(t.DatabaseURL)
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = int32(t.Writers)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, c call) (bool, error) {
		var sum int64
		if err := pool.QueryRow(ctx, "SELECT coalesce(sum(tokens), 0) FROM naive WHERE name = $1", c.limit.Name).Scan(&sum); err != nil {
			return false, err
		}
		if sum+c.most > c.limit.Max {
			return false, nil
		}
		if _, err := pool.Exec(ctx, "INSERT INTO naive (id, name, tokens) VALUES ($1, $2, $3)", c.id, c.limit.Name, c.most); err != nil {
			return false, err
		}
		time.Sleep(time.Millisecond) // pace: the call takes as long as another round trip
		_, err := pool.Exec(ctx, "UPDATE naive SET tokens = $2 WHERE id = $1", c.id, c.used)
		return true, err
	}, pool.Close, nil
}
