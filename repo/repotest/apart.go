package repotest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// RunApart asks one view of a store by every method of the contract for what is in another one, by ids,
// keys, names and cursors, in and outside of a transaction: it is not found, and stays as it is. The other
// view itself is asked the same, and finds it.
// Guarantee: Views: No method of a view finds or changes what belongs to another namespace, by id, key, name or cursor.
func RunApart(t *testing.T, open func(t *testing.T) (one, other repo.Store, otherNamespace string)) {
	t.Helper()
	for method := range contractMethods() {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			one, other, namespace := open(t)
			f := newFixture(t, other, namespace)
			f.wantApart(t.Context(), one, method)
			before := f.read()
			err := one.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
				f.wantApart(ctx, tx, method)
				return errOver
			})
			if !errors.Is(err, errOver) {
				t.Errorf("InTx: %v", err)
			}
			wantSame(t, "other view afterwards", f.read(), before)
			f.wantFound(method)
		})
	}
	for _, test := range apartTests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			one, other, namespace := open(t)
			test.run(t, one, other, namespace)
		})
	}
}

// wantApart asks another view for what the fixture has, in its pages, too.
func (f *fixture) wantApart(ctx context.Context, one repo.Repositories, method string) {
	f.t.Helper()
	for _, c := range contract {
		if !c.of(method) || c.everywhere || c.only == refusals {
			continue
		}
		f.asker, f.ctx = one, ctx
		given := c.args(f)
		f.asker = nil
		asked := []args{given}
		for i := range given {
			if _, is := given[i].(repo.Page); is {
				page := clone(given)
				page[i] = repo.Page{After: f.second(c, given, i)}
				asked = append(asked, page)
			}
		}
		for _, args := range asked {
			f.wantNothing(ctx, c, one, args)
		}
	}
}

func (f *fixture) wantNothing(ctx context.Context, c call, one repo.Repositories, args args) {
	f.t.Helper()
	if c.endless {
		// short: what is there comes at once, and whether it waits for more does not matter.
		bounded, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		ctx = bounded
	}
	results, err := c.run(ctx, one, args)
	if c.endless && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	isRefused := func(is error) bool { return errors.Is(err, is) }
	refused := slices.ContainsFunc([]error{repo.ErrNotFound, repo.ErrInvalid, repo.ErrConflict, repo.ErrImport}, isRefused)
	if err == nil && !c.settled && !found(results, isNothing) || err != nil && !refused {
		f.t.Errorf("%s of %v found %v: %v", c.name, args, results, err)
	}
	wantDiscreet(f.t, err)
}

// second returns the cursor of the second page of a list.
func (f *fixture) second(c call, given args, page int) string {
	return once(f, "second page of "+c.name, func() string {
		first := clone(given)
		first[page] = repo.Page{Limit: 1}
		results, err := c.run(f.t.Context(), f.r, first)
		cursor := reflect.ValueOf(must(f.t, results, err)[0]).FieldByName("Next").String()
		if (cursor == "") != c.single {
			f.t.Errorf("the second page of %s is at %q", c.name, cursor)
		}
		return cursor
	})
}

// wantFound asks the view itself.
func (f *fixture) wantFound(method string) {
	f.t.Helper()
	for _, c := range contract {
		if !c.of(method) || c.everywhere || c.only == refusals {
			continue
		}
		something := func(part any) bool { return !isNothing(part) }
		results, err := c.run(f.t.Context(), f.r, c.args(f))
		if !errors.Is(err, c.fails) || err == nil && !found(results, something) {
			f.t.Errorf("%s of the view itself found %v: %v", c.name, results, err)
		}
	}
}

// found reports whether all parts of an answer are such. What has no results has done something.
func found(results []any, are func(part any) bool) bool {
	if len(results) == 0 {
		return are(true)
	}
	for _, part := range partsOf(results[0]) {
		if !are(part) {
			return false
		}
	}
	return true
}

// partsOf returns the parts of a result that tell what there is, rather than what was asked.
func partsOf(result any) (parts []any) {
	switch result := result.(type) {
	case repo.Snapshot:
		for _, session := range result.Sessions {
			if session != nil {
				parts = append(parts, session.Messages, session.State.Values)
			}
		}
		return append(parts, partsOf(result.Scopes)...)
	case []repo.ScopeState:
		for _, state := range result {
			parts = append(parts, state.Values)
		}
		return parts
	case repo.StatePage:
		return []any{result.Values}
	}
	if v := reflect.ValueOf(result); v.Kind() == reflect.Struct && v.FieldByName("Items").IsValid() {
		return []any{v.FieldByName("Items").Interface()}
	}
	return []any{result}
}

func isNothing(found any) bool {
	v := reflect.ValueOf(found)
	return !v.IsValid() || v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}
