package postgres

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/observe"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

type ctxKey string

// recorder is an observer that keeps what it is told, and a tracer that keeps whose statements it sees.
type recorder struct {
	mu       sync.Mutex
	begun    map[string]int // by name
	ended    []endedOp
	writes   []seenWrite
	groups   []seenGroup
	texts    strings.Builder // all that it was told
	inGroups int             // statements with a group's context
	others   int             // other statements that append
}

type endedOp struct {
	observe.Operation
	observe.Result
	caller any
}

type seenWrite struct {
	observe.Write
	caller any
}

type seenGroup struct {
	observe.Group
	observe.Result
	callers []any
}

func newRecorder() *recorder { return &recorder{begun: map[string]int{}} }

func (r *recorder) Begin(ctx context.Context, op observe.Operation) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun[op.Name]++
	fmt.Fprintf(&r.texts, "%+v\n", op)
	return context.WithValue(ctx, ctxKey("op"), op.Name)
}

func (r *recorder) End(ctx context.Context, op observe.Operation, result observe.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun[op.Name]--
	if ctx.Value(ctxKey("op")) != op.Name {
		panic("it ended with another context")
	}
	fmt.Fprintf(&r.texts, "%+v %+v\n", op, result)
	r.ended = append(r.ended, endedOp{op, result, ctx.Value(ctxKey("caller"))})
}

func (r *recorder) Write(ctx context.Context, w observe.Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.texts, "%+v\n", w)
	r.writes = append(r.writes, seenWrite{w, ctx.Value(ctxKey("caller"))})
}

func (r *recorder) BeginGroup(ctx context.Context, g observe.Group) context.Context {
	var callers []any
	for caller := range g.Callers {
		callers = append(callers, caller.Value(ctxKey("caller")))
	}
	return context.WithValue(ctx, ctxKey("group"), callers)
}

func (r *recorder) EndGroup(ctx context.Context, g observe.Group, result observe.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g.Callers = nil
	fmt.Fprintf(&r.texts, "%+v %+v\n", g, result)
	r.groups = append(r.groups, seenGroup{g, result, ctx.Value(ctxKey("group")).([]any)})
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "name: MessageAppendOne ") || strings.Contains(data.SQL, "name: MessageInsert ") {
		r.mu.Lock()
		defer r.mu.Unlock()
		if ctx.Value(ctxKey("group")) != nil {
			r.inGroups++
		} else {
			r.others++
		}
	}
	return ctx
}

func (*recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// find returns the last operation with a name.
func (r *recorder) find(t *testing.T, name string) endedOp {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, op := range slices.Backward(r.ended) {
		if op.Name == name {
			return op
		}
	}
	t.Fatalf("no %q was seen", name)
	return endedOp{}
}

func (r *recorder) count(name string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, op := range r.ended {
		if op.Name == name {
			n++
		}
	}
	return n
}

// Guarantee: Observers: Each operation is seen with its caller's context, also in transactions, and grouped writes with their wait.
func TestObserverOfGroups(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	store := pgtest.OpenStore(t, pgtest.NewDatabase(t), agentstore.Options{Observer: r, Tracer: r})
	const writers, each = 32, 4
	var wait sync.WaitGroup
	for w := range writers {
		id := pgtest.NewSession(t, store)
		wait.Go(func() {
			for i := range each {
				ctx := context.WithValue(t.Context(), ctxKey("caller"), fmt.Sprint(w, " ", i))
				if _, err := store.Sessions().Append(ctx, id, user("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	var stats postgres.Stats
	await.For(t, "the last group ends, whose writes were answered", func() bool {
		stats = store.Stats()
		return len(stats.Committers) != 1 || stats.Committers[0].Groups == 0 && stats.Pool.Acquired == 0
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, carried, joined := map[any]int{}, map[any]int{}, 0
	for _, w := range r.writes {
		if w.Kind != "append" || w.Wait <= 0 || w.Commit <= 0 || w.Group < 1 || w.Attempts < 1 || w.Result != (observe.Result{}) {
			t.Errorf("it is %+v", w)
		}
		seen[w.caller]++
	}
	for _, g := range r.groups {
		if g.Size != len(g.callers) || g.Result != (observe.Result{}) {
			t.Errorf("it is %+v", g)
		}
		joined = max(joined, g.Size)
		for _, caller := range g.callers {
			carried[caller]++
		}
	}
	for w := range writers {
		for i := range each {
			if caller := fmt.Sprint(w, " ", i); seen[caller] != 1 || carried[caller] < 1 {
				t.Errorf("caller %s has %d writes, in %d groups", caller, seen[caller], carried[caller])
			}
		}
	}
	// The tracer has the groups' contexts, which lead to the callers: without an observer it has neither.
	if joined < 2 || r.inGroups == 0 || r.others > 0 {
		t.Errorf("the largest group has %d, %d statements are in groups and %d are not", joined, r.inGroups, r.others)
	}
	if len(stats.Committers) != 1 || stats.Committers[0] != (postgres.CommitterStats{Kind: "append", Begun: int64(len(r.groups))}) {
		t.Errorf("the committers are %+v, of %d groups", stats.Committers, len(r.groups))
	}
	if stats.Pool.Max < 4 || stats.Pool.Open < 1 || stats.Pool.Acquired != 0 || stats.Followers != (postgres.FollowerStats{}) {
		t.Errorf("they are %+v", stats)
	}
}

// A write whose session is locked says how often it was tried, and that it was withdrawn.
func TestObserverOfHeldSession(t *testing.T) {
	t.Parallel()
	r, databaseURL := newRecorder(), pgtest.NewDatabase(t)
	store, pool := pgtest.OpenStore(t, databaseURL, agentstore.Options{Observer: r}), pgtest.NewPool(t, databaseURL)
	id := pgtest.NewSession(t, store)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, tx, "SELECT FROM session_counters WHERE session_id = $1 FOR UPDATE", [16]byte(id))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan error, 1)
	go func() {
		_, err := store.Sessions().Append(ctx, id, user("x"))
		first <- err
	}()
	await.For(t, "the session is held", func() bool {
		stats := store.Stats().Committers
		return len(stats) == 1 && stats[0].Begun >= 2
	})
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := store.Sessions().Append(t.Context(), id, user("x"))
		second <- err
	}()
	await.For(t, "it is tried", func() bool { return store.Stats().Committers[0].Groups > 0 })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.writes) != 2 || !slices.Contains([]string{"canceled", "unknown_outcome"}, r.writes[0].Result.Error) || r.writes[0].Attempts < 1 || r.writes[1].Result.Error != "" {
		t.Errorf("they are %+v", r.writes)
	}
}

// The operations of InTx and of bound transactions are seen.
func TestObserverOfTransactions(t *testing.T) {
	t.Parallel()
	r, databaseURL := newRecorder(), pgtest.NewDatabase(t)
	store, pool := pgtest.OpenStore(t, databaseURL, agentstore.Options{Observer: r}), pgtest.NewPool(t, databaseURL)
	id := pgtest.NewSession(t, store)
	if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if ctx.Value(ctxKey("op")) != "in_tx" {
			t.Error("the function has another context")
		}
		if err := agentstore.WithTx(tx, func(own pgx.Tx) error {
			_, err := own.Exec(ctx, "SELECT 1")
			return err
		}, nil); err != nil {
			return err
		}
		_, err := tx.Sessions().Append(ctx, id, user("x"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if op := r.find(t, "append"); !op.InTx || op.Session != id || op.Begun.IsZero() {
		t.Errorf("it is %+v", op)
	}
	if op := r.find(t, "in_tx"); op.InTx || op.Error != "" {
		t.Errorf("it is %+v", op)
	}
	in := store.In(repo.DefaultNamespace)
	if err := in.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if _, ok := postgres.Tx(tx); !ok {
			t.Error("a view's transaction is not found")
		}
		_, err := tx.Sessions().Get(ctx, id)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if op := r.find(t, "get"); !op.InTx || r.count("get") != 1 {
		t.Errorf("the view's is %+v", op)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	bound := postgres.BindWith(tx, postgres.Options{Observer: r})
	if _, err := bound.Sessions().Get(t.Context(), repo.NewID()); !errors.Is(err, repo.ErrNotFound) {
		t.Fatal(err)
	}
	if op := r.find(t, "get"); !op.InTx || op.Error != "not_found" {
		t.Errorf("it is %+v", op)
	}
	if own, ok := postgres.Tx(bound); !ok || own != tx {
		t.Error("it has another transaction")
	}
	err = store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		return agentstore.WithTx(tx, func(own pgx.Tx) error {
			_, err := own.Exec(ctx, "SELECT 1/0")
			return err
		}, nil)
	})
	if op := r.find(t, "in_tx"); err == nil || op.SQLState != "22012" {
		t.Errorf("it is %+v, of %v", op, err)
	}
}

// marker is in all that callers give.
const marker = "mArKeR"

// Guarantee: Observers: An observer is told no contents, keys, names or texts of errors.
func TestObserverSeesNoContents(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"memory", "postgres"} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			r := newRecorder()
			url := "memory://" + marker
			if on == "postgres" {
				url = pgtest.NewDatabase(t)
			}
			store, err := agentstore.Open(t.Context(), url, agentstore.Options{Observer: r})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = store.Close() }()
			session, err := store.Sessions().Create(t.Context(), repo.NewSession{Key: marker, Owner: marker})
			if err != nil {
				t.Fatal(err)
			}
			// First what is valid, and then all methods: most refuse their arguments, with errors that name them.
			valid := func(what string, err error) {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			ctx := t.Context()
			_, err = store.Sessions().Append(ctx, session.ID, user(marker))
			valid("append", err)
			_, err = store.Sessions().AppendTurn(ctx, repo.Turn{SessionID: session.ID, ID: marker, Messages: []repo.NewMessage{user(marker)}})
			valid("append_turn", err)
			lease, err := store.Leases().Acquire(ctx, repo.NewLease{Key: repo.LeaseKey{Kind: "k", Name: marker}, Owner: marker, TTL: time.Hour})
			valid("acquire", err)
			_, err = store.Leases().Renew(ctx, lease, time.Hour)
			valid("renew", err)
			stream, err := store.Streams().Open(ctx, repo.NewStream{Key: marker, Owner: marker, TTL: time.Hour})
			valid("open", err)
			_, err = store.Streams().Append(ctx, stream, []byte(marker))
			valid("streams.append", err)
			action, err := store.Actions().Create(ctx, repo.NewAction{Name: "local/" + strings.ToLower(marker)})
			valid("actions.create", err)
			plan, err := store.Plans().Use(ctx, action.Name.String(), repo.UseAction{Key: marker, Description: marker})
			valid("plans.use", err)
			_, err = store.Plans().Transition(ctx, plan.ID, repo.TransitionCancel, repo.Cause{Reason: marker})
			valid("transition", err)

			calls := 0
			for repository := range reflect.TypeFor[repo.Repositories]().Methods() {
				of := reflect.ValueOf(store.Store).MethodByName(repository.Name).Call(nil)[0]
				for _, method := range of.Elem().Methods() {
					call(t, method, session.ID)
					calls++
				}
			}

			r.mu.Lock()
			defer r.mu.Unlock()
			if text := r.texts.String(); strings.Contains(strings.ToLower(text), strings.ToLower(marker)) {
				t.Errorf("the observer was told contents:\n%s", text)
			}
			if len(r.begun) < calls || calls < 70 {
				t.Errorf("%d operations were seen, of %d", len(r.begun), calls)
			}
			for name, left := range r.begun {
				if left != 0 {
					t.Errorf("%q has not ended, or twice", name)
				}
			}
			for _, op := range r.ended {
				if op.Error == "other" {
					t.Errorf("%q has an error of no kind", op.Name)
				}
			}
			if on == "postgres" && (len(r.groups) == 0 || len(r.writes) < 4) {
				t.Errorf("there are %d groups and %d writes", len(r.groups), len(r.writes))
			}
		})
	}
}

// call calls a method with arguments that contain the marker, and loops over what it yields.
func call(t *testing.T, method reflect.Value, session repo.ID) {
	t.Helper()
	// short: it ends those that follow or wait, however late
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	args := []reflect.Value{reflect.ValueOf(ctx)}
	last := method.Type().NumIn()
	for i := 1; i < last; i++ {
		args = append(args, marked(method.Type().In(i), session))
	}
	results := method.Call
	if method.Type().IsVariadic() {
		results = method.CallSlice
	}
	if items := results(args)[0]; items.Kind() == reflect.Func {
		for range items.Seq2() {
		}
	}
}

// marked returns a value of a type with the marker wherever it has text.
func marked(of reflect.Type, session repo.ID) reflect.Value {
	value := reflect.New(of).Elem()
	switch of {
	case reflect.TypeFor[repo.ID]():
		return reflect.ValueOf(session)
	case reflect.TypeFor[time.Time]():
		return reflect.ValueOf(time.Now())
	}
	switch of.Kind() {
	case reflect.String:
		value.SetString(marker)
	case reflect.Int, reflect.Int64:
		value.SetInt(1)
	case reflect.Interface: // a reader or a writer
		if of.NumMethod() == 1 {
			value.Set(reflect.ValueOf(struct {
				*strings.Reader
				*strings.Builder
			}{strings.NewReader(marker), &strings.Builder{}}))
		}
	case reflect.Pointer:
		value.Set(reflect.New(of.Elem()))
		value.Elem().Set(marked(of.Elem(), session))
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			value.SetBytes([]byte(`{"` + marker + `":1}`))
			break
		}
		value = reflect.Append(value, marked(of.Elem(), session))
	case reflect.Struct:
		for i := range of.NumField() {
			if of.Field(i).IsExported() {
				value.Field(i).Set(marked(of.Field(i).Type, session))
			}
		}
	}
	return value
}
