package repotest

import (
	"cmp"
	"context"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// contract has a call of each method of the repositories, and further ones of some. The tests of what holds for every
// method go through it: Buffers, Contexts, Closed, Inside, RunApart, and the round trips to PostgreSQL.
var contract = slices.Concat(sessionCalls, actionCalls, planCalls, stateCalls, leaseCalls, streamCalls, auditCalls)

// call is a call that succeeds, of one method, on what a fixture has.
type call struct {
	// name is the method's, and behind a slash what is special about a further call of it.
	name string
	// args returns the arguments behind the context; a variadic one is its slice.
	args func(f *fixture) args
	// only says that it is made by some tests alone.
	only only
	// reads: if it is made again, its answer is the same.
	reads bool
	// moving: its answer tells of what other tests do meanwhile.
	moving bool
	// waits is not zero if it waits, which no transaction can: after so many items of an iterator.
	waits int
	// endless: it waits for what does not exist, too.
	endless bool
	// single: what it lists has no second page.
	single bool
	// fails is the error that it gives, if it does.
	fails error
	// settled: that there is nothing to end is no error.
	settled bool
	// everywhere: it names nothing of any namespace.
	everywhere bool
	// trips are its round trips to PostgreSQL, and inTx those in a transaction, if they are others; zero: one.
	trips, inTx int
}

type args = []any

type only int

const (
	// views: it is asked of views, since on a whole store it gives another answer, or that of another call.
	views only = iota + 1
	// refusals: it is made where it must not begin, since it would fail.
	refusals
)

// none are the round trips of what is known already.
const none = -1

// method returns the method's name without the repository's.
func (c call) method() string {
	method, _, _ := strings.Cut(c.name, "/")
	return method[strings.Index(method, ".")+1:]
}

// of reports whether it is one of a method, or of the methods of a repository.
func (c call) of(name string) bool {
	method, _, _ := strings.Cut(c.name, "/")
	repository, _, _ := strings.Cut(method, ".")
	return name == method || name == repository
}

// callsOf returns the calls of a method or a repository that all tests make.
func callsOf(name string) []call {
	return slices.DeleteFunc(slices.Clone(contract), func(c call) bool { return !c.of(name) || c.only != 0 })
}

// contractMethods yields the names of the methods that have a call.
func contractMethods() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, c := range contract {
			name, _, _ := strings.Cut(c.name, "/")
			if !slices.ContainsFunc(contract[:i], func(before call) bool { return before.of(name) }) && !yield(name) {
				return
			}
		}
	}
}

// repositories returns the repositories by name.
func repositories(r repo.Repositories) map[string]reflect.Value {
	all := map[string]reflect.Value{}
	for method := range reflect.TypeFor[repo.Repositories]().Methods() {
		all[method.Name] = reflect.ValueOf(r).MethodByName(method.Name).Call(nil)[0]
	}
	return all
}

// run makes the call, and returns its results without the error, and what it wrote.
func (c call) run(ctx context.Context, r repo.Repositories, args args) (results []any, err error) {
	return c.runOn(ctx, repositories(r), args)
}

func (c call) runOn(ctx context.Context, all map[string]reflect.Value, args args) (results []any, err error) {
	repository, _, _ := strings.Cut(c.name, ".")
	return c.invoke(ctx, all[repository], args)
}

func (c call) invoke(ctx context.Context, on reflect.Value, args args) (results []any, err error) {
	method := on.MethodByName(c.method())
	values, takes := []reflect.Value{reflect.ValueOf(ctx)}, method.Type().NumIn()
	if takes == 0 { // Close
		values = nil
	}
	for i, arg := range args {
		values = append(values, reflect.ValueOf(arg).Convert(method.Type().In(i+1)))
	}
	invoke := method.Call
	if method.Type().IsVariadic() {
		if invoke = method.CallSlice; len(values) < takes {
			values = append(values, reflect.Zero(method.Type().In(takes-1)))
		}
	}
	for _, value := range invoke(values) {
		switch result := value.Interface().(type) {
		case error:
			err = result
		case nil: // no error
		case auditlog.Sink:
			err = result.Close()
		default:
			if value.Kind() == reflect.Func {
				result, err = c.collect(value)
			}
			results = append(results, result)
		}
	}
	for _, arg := range args {
		if w, is := arg.(*written); is {
			results = append(results, slices.Clone(w.Document))
		}
	}
	return results, err
}

// collect returns what an iterator yields, up to an error or the item behind which it waits.
func (c call) collect(iterator reflect.Value) (items []any, err error) {
	for item, failed := range iterator.Seq2() {
		if err, _ = reflect.TypeAssert[error](failed); err != nil {
			break
		}
		if items = append(items, item.Interface()); len(items) == c.waits {
			break
		}
	}
	return items, err
}

// Method is one of the contract's, with the arguments for a call that succeeds.
type Method struct {
	Name string // such as "Sessions.Get"
	// RoundTrips are those that the call has to take to PostgreSQL, and RoundTripsInTx those in a transaction.
	RoundTrips, RoundTripsInTx int
	// Call makes the call. It may be made again after a transaction that was rolled back.
	Call func(ctx context.Context, r repo.Repositories) error
}

// Methods yields the methods of the contract, some several times with other arguments. It prepares in the store what
// the calls need before it yields them. Those that wait for others are not among them.
func Methods(t *testing.T, store repo.Store) iter.Seq[Method] {
	t.Helper()
	return func(yield func(Method) bool) {
		for _, c := range contract {
			if c.only != 0 || c.waits > 0 {
				continue
			}
			given := c.args(newFixture(t, store, spaceOf(store)))
			alone := cmp.Or(c.trips, 1)
			method := Method{Name: c.name, RoundTrips: max(alone, 0), RoundTripsInTx: cmp.Or(c.inTx, alone)}
			method.Call = func(ctx context.Context, r repo.Repositories) error {
				_, err := c.run(ctx, r, clone(given))
				return err
			}
			if !yield(method) {
				return
			}
		}
	}
}
