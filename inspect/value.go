package inspect

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// value is something for people, Text, and for programs, JSON.
type value struct {
	Text, Link, Style string
	JSON              any
}

func text(s string) value     { return value{Text: s, JSON: s} }
func link(to, s string) value { return value{Text: s, Link: to, JSON: s} }

// Shown reports whether there is something to show, Folded whether only its Head is until it is unfolded.
func (v value) Shown() bool  { return v.Text != "" }
func (v value) Folded() bool { return v.Style == "code" && len(v.Text) > folded }
func (v value) Head() string { return clip(v.Text, 120) }

// addressed is an id with the address of its page. Name, if there is one, is shown instead of it.
func (l *look) addressed(page string, id repo.ID, name string) value {
	if id.IsZero() {
		return value{}
	}
	v := value{Text: cmp.Or(name, id.String()), Link: l.url(page + id.String()), JSON: id.String()}
	if name == "" {
		v.Style = "id"
	}
	return v
}

// content is a text that only a viewer who may read contents gets.
func (l *look) content(shown bool, s string) value {
	if !shown || s == "" || s == "{}" {
		return value{}
	}
	s = clip(l.options.Redact(s), maxShown)
	return value{Text: s, Style: "code", JSON: s}
}

// margin is how much is read beyond what is shown of a text, so that a secret is recognized that is shown in part.
const margin = 4096

// beginning returns the beginning of a text, without a secret.
func (l *look) beginning(s string) string {
	if len(s) <= 2*margin {
		return l.options.Redact(s)
	}
	s = l.options.Redact(clip(s, 2*margin))
	return clip(s, max(0, len(s)-margin))
}

// pages are where the ids lead that have these names in a struct, or, for an ID, this type.
var pages = map[string]string{
	"SessionID": "/sessions/", "Session": "/sessions/", "repo.Session": "/sessions/", "ParentID": "/plans/",
	"PlanID": "/plans/", "repo.Plan": "/plans/",
	"repo.AuditEntry": "/audit/",
}

// fields returns the fields of a struct that are named, apart by spaces. An asterisk marks contents.
func (l *look) fields(of any, shown bool, names string) (all []field) {
	whole := reflect.ValueOf(of)
	for name := range strings.FieldsSeq(names) {
		name, isContent := strings.CutPrefix(name, "*")
		v, last := whole, ""
		for last = range strings.SplitSeq(name, ".") {
			v = v.FieldByName(last)
		}
		f := field{words(strings.TrimSuffix(last, "ID")), l.value(v)}
		id, isID := reflect.TypeAssert[repo.ID](v)
		switch to := cmp.Or(pages[last], pages[whole.Type().String()]); {
		case isContent && v.Kind() == reflect.Slice:
			f.value = l.content(shown, string(v.Bytes()))
		case isContent:
			f.value = l.content(shown, v.String())
		case last == "ID":
			f.Name = "Id"
			fallthrough
		case isID && to != "":
			f.value = l.addressed(to, id, "")
		}
		all = append(all, f)
	}
	return all
}

// table returns a section with a row for each item of a slice. Without names it has all fields.
func (l *look) table(s section, items any, shown bool, names string) section {
	all := reflect.ValueOf(items)
	if names == "" {
		for _, column := range reflect.VisibleFields(all.Type().Elem()) {
			names += column.Name + " "
		}
	}
	for _, f := range l.fields(reflect.Zero(all.Type().Elem()).Interface(), false, names) {
		s.Columns = append(s.Columns, f.Name)
	}
	for i := range all.Len() {
		var row []value
		for _, f := range l.fields(all.Index(i).Interface(), shown, names) {
			row = append(row, f.value)
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

func (l *look) value(of reflect.Value) value {
	if of.Kind() == reflect.Pointer {
		if of.IsNil() {
			return value{}
		}
		of = of.Elem()
	}
	switch v := of.Interface().(type) {
	case time.Time:
		if v.IsZero() {
			return value{}
		}
		return value{Text: v.UTC().Format(time.DateTime), Style: "time", JSON: v.UTC().Format("2006-01-02T15:04:05.000000Z")}
	case time.Duration:
		return value{Text: v.Round(10 * time.Microsecond).String(), Style: "number", JSON: v.Seconds()}
	case repo.Cost:
		return value{Text: v.String(), Style: "number", JSON: v}
	case repo.PlanState, repo.StreamStatus:
		return value{Text: of.String(), Style: "badge " + of.String(), JSON: v}
	case fmt.Stringer:
		return text(v.String())
	case bool:
		return value{Text: map[bool]string{true: "yes"}[v], JSON: v}
	}
	if of.CanInt() {
		return value{Text: grouped(of.Int()), Style: "number", JSON: of.Int()}
	}
	return text(fmt.Sprint(of.Interface()))
}

// report shows a struct: its slices as tables, and all else as fields.
func (l *look) report(title string, of reflect.Value) (all []section) {
	s := section{Key: member(title), Title: title}
	for _, f := range reflect.VisibleFields(of.Type()) {
		switch v := of.FieldByIndex(f.Index); {
		case !f.IsExported():
		case v.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]():
			all = append(all, l.report(title+": "+strings.ToLower(words(f.Name)), v)...)
		case v.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			all = append(all, l.table(section{Key: member(f.Name), Title: words(f.Name), Empty: "None."}, v.Interface(), false,
				""))
		default:
			s.Fields = append(s.Fields, field{words(f.Name), l.value(v)})
		}
	}
	if s.Fields == nil {
		return all
	}
	return append([]section{s}, all...)
}
