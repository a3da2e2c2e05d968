package repotest

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
)

type colour struct {
	Name string
	Tags []string `json:"tags,omitempty"`
}

// oneWay writes JSON that it does not read.
type oneWay struct{ text string }

func (o oneWay) MarshalJSON() ([]byte, error) { return []byte(`"` + o.text + `"`), nil }

func (o *oneWay) UnmarshalJSON([]byte) error { return errors.New(o.text) }

// Values are set, read, listed by the bytes of their keys, and removed, in a session's own
// scope and in a shared one.
func testTypedValues(t *testing.T, r repo.Repositories) {
	ctx := t.Context()
	for _, scope := range []repo.Scope{{Name: randomName()}, {SessionID: create(t, r.Sessions())}} {
		values := adapter.ValuesIn[*colour](r.State(), scope)
		list, err := values.List(ctx)
		if must(t, list, err); len(list) != 0 {
			t.Errorf("%d values of none", len(list))
		}
		for _, key := range []string{"b", "a", "B"} {
			must(t, key, values.Set(ctx, key, &colour{Name: key, Tags: []string{"x"}}))
		}
		must(t, "b", values.Set(ctx, "b", &colour{Name: "another"}))
		must(t, "a", values.Remove(ctx, "a"))
		must(t, "a", values.Remove(ctx, "a"))
		_, err = values.Get(ctx, "a")
		_, _ = wantError[*repo.NotFoundError](t, err, repo.ErrNotFound)
		got, err := values.Get(ctx, "b")
		if must(t, got, err); got.Name != "another" || got.Tags != nil {
			t.Errorf("got %+v", got)
		}
		list, err = values.List(ctx)
		if must(t, list, err); len(list) != 2 || list[0].Name != "B" || list[1].Name != "another" {
			t.Errorf("%d values: %+v", len(list), list)
		}
		others := adapter.ValuesIn[[]string](r.State(), scope)
		_, err = others.Get(ctx, "b")
		wantInvalid(t, err, "value")
		_, err = others.List(ctx)
		wantInvalid(t, err, "value")
		wantInvalid(t, values.Set(ctx, "", &colour{}), "changes[0].key")
		wantInvalid(t, adapter.ValuesIn[oneWay](r.State(), scope).Set(ctx, "c", oneWay{secret}), "value")
		wantInvalid(t, adapter.ValuesIn[any](r.State(), scope).Set(ctx, "c", func() {}), "value")
		wantInvalid(t, values.Set(ctx, "c", &colour{Name: "caf\xe9"}), "value")
		if scope.Name == "" {
			wantInvalid(t, values.Erase(ctx), "scope")
			continue
		}
		must(t, scope, values.Erase(ctx))
		must(t, scope, values.Erase(ctx))
		list, err = values.List(ctx)
		if must(t, list, err); len(list) != 0 {
			t.Errorf("%d values of none", len(list))
		}
	}
	session := repo.Scope{SessionID: create(t, r.Sessions())}
	shared := repo.Scope{Name: randomName()}
	must(t, shared, adapter.ValuesIn[int](r.State(), shared).Set(ctx, "k", 1))
	both := adapter.ValuesIn[int](r.State(), repo.Scope{Name: shared.Name, SessionID: session.SessionID})
	wantInvalid(t, both.Set(ctx, "k", 2), "changes[0].scope")
	wantInvalid(t, both.Erase(ctx), "scope")
	if got, err := adapter.ValuesIn[int](r.State(), shared).Get(ctx, "k"); err != nil || got != 1 {
		t.Errorf("the shared value is %d, %v", got, err)
	}
}
