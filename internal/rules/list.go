package rules

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/internal/cursor"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// List is a checked request for a page of a list.
type List[Filter, Place, Entity any] struct {
	// Filter is normalized.
	Filter Filter
	// Limit is the maximum number of entities on the page.
	Limit int
	// After is where the previous page ended, in the order of the list. For the
	// first page it is a place before all entities.
	After Place

	next func(last Entity) string
}

// Place is a place in a list that is ordered by time, then id.
type Place struct {
	CreatedAt time.Time
	ID        repo.ID
	// Coarse: the list is not in the order of the exact time where the page ended.
	Coarse bool
}

// Next returns the cursor of a page of this list that ended with last.
func (l List[Filter, Place, Entity]) Next(last Entity) string { return l.next(last) }

// lastID is the largest id, before which lists begin. No id that is generated has this value.
var lastID = repo.ID([]byte(strings.Repeat("\xff", len(repo.ID{}))))

var errForeignCursor = errors.New("is not a cursor that a page returned")

// newList checks a page, unless the filter is wrong. A cursor is accepted only by the list that issued it: key
// identifies the list, with all values of its filter. No text in a place has a NUL.
func newList[Filter, Place, Entity any](
	wrong error, filter Filter, page repo.Page, first Place, placeOf func(Entity) Place, key ...string,
) (List[Filter, Place, Entity], error) {
	list := List[Filter, Place, Entity]{Filter: filter, After: first}
	limit, err := CheckLimit(page.Limit)
	if err = cmp.Or(wrong, err); err != nil {
		return list, err
	}
	list.Limit = limit
	if page.After != "" {
		list.After, err = cursor.Decode[Place](page.After, key...)
		if err != nil || strings.Contains(fmt.Sprint(list.After), "\x00") {
			return list, invalid("page.after", "%s", cmp.Or(err, errForeignCursor))
		}
	}
	list.next = func(last Entity) string { return cursor.Encode(placeOf(last), key...) }
	return list, nil
}

// PageOf makes a page of rows, which ends before its entities have limits.MaxReadBytes. One row more than the limit was
// requested: if it is there, there is a next page.
func PageOf[Row, Filter, Place, Entity any](
	list List[Filter, Place, Entity], rows []Row, entityOf func(Row) (Entity, error),
) (page repo.List[Entity], err error) {
	page.Items = make([]Entity, 0, min(len(rows), list.Limit))
	for bytes := 0; len(page.Items) < cap(page.Items); {
		entity, err := entityOf(rows[len(page.Items)])
		if err != nil {
			return repo.List[Entity]{}, err
		}
		if bytes += bytesOf(reflect.ValueOf(entity)); bytes >= limits.MaxReadBytes && len(page.Items) > 0 {
			break
		}
		page.Items = append(page.Items, entity)
	}
	if len(rows) > len(page.Items) {
		page.Next = list.next(page.Items[len(page.Items)-1])
	}
	return page, nil
}

// bytesOf returns how many bytes the texts and documents of an entity have.
func bytesOf(v reflect.Value) (bytes int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Len()
		}
		for i := range v.Len() {
			bytes += bytesOf(v.Index(i))
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			bytes += bytesOf(field)
		}
	}
	return bytes
}

// SessionList checks a page of sessions, which are ordered newest first. For
// SessionFilter.ByActivity there is ActiveSessionList.
func SessionList(f repo.SessionFilter, page repo.Page) (list List[repo.SessionFilter, Place, repo.Session], err error) {
	f.Namespace = cmp.Or(f.Namespace, repo.DefaultNamespace)
	err = cmp.Or(
		checkNames(name{"namespace", f.Namespace}, name{"actor", f.Actor}),
		checkListOwner(f),
		normalizeTime("created_from", &f.CreatedFrom),
		normalizeTime("created_before", &f.CreatedBefore),
	)
	placeOf := func(last repo.Session) Place { return Place{CreatedAt: last.CreatedAt, ID: last.ID} }
	key := []string{"sessions", f.Namespace, f.Actor, f.CreatedFrom.String(), f.CreatedBefore.String()}
	if f.Owner != "" { // without one, cursors are as of libraries that know no owner
		key = append(key, f.Owner)
	}
	return newList(err, f, page, Place{CreatedAt: endOfTime}, placeOf, key...)
}

// checkListOwner does not take an owner that is not given for any owner.
func checkListOwner(f repo.SessionFilter) error {
	if f.AnyOwner {
		return invalidIf(f.Owner != "", "any_owner", "is set together with an owner")
	}
	if f.Owner == "" {
		return invalid("owner", "is empty, and any_owner is not set")
	}
	return checkText("owner", f.Owner, limits.MaxUserIDBytes)
}

// ActiveSession is a session and its place in a list by activity.
type ActiveSession struct {
	Session repo.Session
	Place   Place
}

// ActiveSessionList checks a page of sessions by activity: last active
// first.
func ActiveSessionList(f repo.SessionFilter, page repo.Page) (list List[repo.SessionFilter, Place, ActiveSession],
	err error,
) {
	f.Namespace = cmp.Or(f.Namespace, repo.DefaultNamespace)
	const only = "is only for sessions by creation"
	err = cmp.Or(
		checkNames(name{"namespace", f.Namespace}),
		checkListOwner(f),
		invalidIf(f.Actor != "", "actor", only),
		invalidIf(!f.CreatedFrom.IsZero(), "created_from", only),
		invalidIf(!f.CreatedBefore.IsZero(), "created_before", only),
	)
	placeOf := func(last ActiveSession) Place { return last.Place }
	return newList(err, f, page, Place{CreatedAt: endOfTime}, placeOf, "active sessions", f.Namespace, f.Owner)
}

// IdleSessionList checks a page of idle sessions.
func IdleSessionList(f repo.SessionFilter, page repo.Page) (list List[repo.SessionFilter, Place, ActiveSession],
	err error,
) {
	f.Namespace = cmp.Or(f.Namespace, repo.DefaultNamespace)
	const only = "may not be set together with idle_since"
	err = cmp.Or(
		checkNames(name{"namespace", f.Namespace}),
		invalidIf(f.Owner != "", "owner", only),
		checkListOwner(f),
		invalidIf(f.Actor != "", "actor", only),
		invalidIf(f.ByActivity, "by_activity", only),
		invalidIf(!f.CreatedFrom.IsZero(), "created_from", only),
		invalidIf(!f.CreatedBefore.IsZero(), "created_before", only),
		normalizeTime("idle_since", &f.IdleSince),
	)
	placeOf := func(last ActiveSession) Place { return last.Place }
	return newList(err, f, page, Place{}, placeOf, "idle sessions", f.Namespace, f.IdleSince.String())
}

// ActivePage returns the sessions of a page by activity.
func ActivePage(active repo.List[ActiveSession], err error) (repo.List[repo.Session], error) {
	page := repo.List[repo.Session]{Items: make([]repo.Session, len(active.Items)), Next: active.Next}
	for i := range active.Items {
		page.Items[i] = active.Items[i].Session
	}
	return page, err
}

// NamespaceList checks a page of namespaces.
func NamespaceList(page repo.Page) (List[struct{}, string, string], error) {
	return newList(nil, struct{}{}, page, "", func(last string) string { return last }, "namespaces")
}

// ActionList checks a page of actions, which are ordered by name.
func ActionList(f repo.ActionFilter, page repo.Page) (list List[repo.ActionFilter, string, repo.Action], err error) {
	f.Namespace = cmp.Or(f.Namespace, repo.DefaultNamespace)
	for _, part := range []struct {
		field string
		name  repo.ActionName
	}{
		{"server", repo.ActionName{Server: f.Server, Namespace: "x", Name: "x"}},
		{"namespace", repo.ActionName{Namespace: f.Namespace, Name: "x"}},
	} {
		if parsed, err := repo.ParseActionName(part.name.String()); err != nil || parsed != part.name {
			return list, invalid(part.field, "is not part of an action's name")
		}
	}
	err = cmp.Or(invalidIf(f.Available && f.Archived, "archived", "is set together with available"),
		checkNames(name{"tag", f.Tag}))
	placeOf := func(last repo.Action) string { return last.Name.String() }
	return newList(err, f, page, "", placeOf, "actions", f.Server, f.Namespace, strconv.FormatBool(f.Available),
		strconv.FormatBool(f.Archived), f.Tag)
}

// PlanList checks a page of plans, which are ordered by id, descending.
func PlanList(view string, f repo.PlanFilter, page repo.Page) (list List[repo.PlanFilter, repo.ID, repo.Plan],
	err error,
) {
	narrow := 0
	for _, set := range []bool{!f.SessionID.IsZero(), !f.ParentID.IsZero(), f.Project != "", f.Action != ""} {
		if set {
			narrow++
		}
	}
	if narrow > 1 {
		return list, invalid("filter", "has more than one of session, parent, project and action")
	}
	if f.Namespace == "" && narrow == 0 {
		f.Namespace = repo.DefaultNamespace
	}
	if err := checkNames(name{"namespace", f.Namespace}, name{"project", f.Project}); err != nil {
		return list, err
	}
	if f.Action != "" {
		action, err := repo.ParseActionName(actionInView(view, f.Action))
		if err != nil {
			return list, err
		}
		f.Action = action.String()
	}
	err = invalidIf(len(StagesOf(f)) == 0, "filter", "has a phase or state that does not exist, or not together")
	placeOf := func(last repo.Plan) repo.ID { return last.ID }
	return newList(err, f, page, lastID, placeOf,
		"plans", f.Namespace, string(f.Phase), string(f.State), f.SessionID.String(), f.ParentID.String(), f.Project,
		f.Action)
}

// CountList checks a page of counts, which are ordered by namespace, phase and state. A place is
// these three.
func CountList(namespace string, page repo.Page) (List[string, repo.PlanCount, repo.PlanCount], error) {
	first := repo.PlanCount{Namespace: namespace}
	placeOf := func(last repo.PlanCount) repo.PlanCount {
		return repo.PlanCount{Namespace: last.Namespace, Stage: last.Stage}
	}
	return newList(checkNames(name{"namespace", namespace}), namespace, page, first, placeOf, "plan counts", namespace)
}

// StagesOf returns the stages that the filter selects.
func StagesOf(f repo.PlanFilter) []repo.Stage {
	return slices.DeleteFunc(Stages(), func(stage repo.Stage) bool {
		return f.Phase != "" && f.Phase != stage.Phase || f.State != "" && f.State != stage.State
	})
}

// AuditList checks a page of entries, which are ordered by time, then id. Errors:
// InvalidError.
func AuditList(f repo.AuditFilter, page repo.Page) (list List[repo.AuditFilter, Place, repo.AuditEntry], err error) {
	f, err = NormalizeAuditFilter(f)
	var first Place
	if !f.OldestFirst {
		first = Place{CreatedAt: endOfTime, ID: lastID}
	}
	placeOf := func(last repo.AuditEntry) Place { return Place{CreatedAt: last.OccurredAt, ID: last.ID} }
	return newList(err, f, page, first, placeOf,
		"audit", strconv.FormatBool(f.OldestFirst), f.Type, f.Actor, f.User, f.PlanID.String(), f.SessionID.String(),
		f.Project, f.OccurredFrom.String(), f.OccurredBefore.String(), f.Namespace)
}
