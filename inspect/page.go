package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf16"
)

// page is what the template shows. As JSON it is an object with a member for each section.
type page struct {
	Title    string
	Current  string // the entry of the navigation
	Above    []value
	Sections []section
	Feed     string // the address of the events that the script adds to the messages
}

// section is a part of a page: a note, a form, fields, a plot, a table, messages or a tree.
type section struct {
	Key, Title, Note, Empty string // Empty is said if there are no rows
	Form                    *form
	Fields                  []field
	Plot                    *plot
	Columns                 []string
	Rows                    [][]value
	Messages                []*message
	Tree                    *node
	Earlier, Next           string
}

type field struct {
	Name string
	value
}

type form struct {
	Method, Action, Button string
	Inputs                 []input
}

type input struct{ Name, Label, Type, Value string }

// filter is a form that asks for the same page with other parameters.
func (l *look) filter(names ...string) *form {
	f := &form{Method: "get", Button: "Filter"}
	for _, name := range names {
		f.Inputs = append(f.Inputs, input{Name: name, Label: words(name), Type: "text", Value: l.r.FormValue(name)})
	}
	return l.keep(f)
}

// keep has a form keep the namespace that was chosen.
func (l *look) keep(f *form) *form {
	if l.chosen {
		f.Inputs = append(f.Inputs, input{Name: "namespace", Type: "hidden", Value: l.namespace})
	}
	return f
}

// write writes a page. Nothing is sent before it is complete.
func (i *Inspector) write(w http.ResponseWriter, l *look, status int, p *page) {
	var out bytes.Buffer
	kind := "text/html; charset=utf-8"
	var err error
	if l.r.URL.Query().Get("format") == "json" {
		kind = "application/json; charset=utf-8"
		err = p.json(&out)
	} else {
		err = i.template.ExecuteTemplate(&out, "page", map[string]any{"Page": p, "Look": l})
	}
	if err != nil {
		i.options.Logger.Error("inspect: page not written", "error", err)
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes())
}

// json writes the page as JSON, in which no character steers a terminal.
func (p *page) json(out *bytes.Buffer) error {
	members := map[string]any{"title": p.Title}
	for _, s := range p.Sections {
		m := map[string]any{}
		for name, text := range map[string]string{"note": s.Note, "earlier": s.Earlier, "next": s.Next} {
			if text != "" {
				m[name] = text
			}
		}
		for _, f := range s.Fields {
			m[member(f.Name)] = f.JSON
		}
		rows := make([]map[string]any, len(s.Rows))
		for i, row := range s.Rows {
			rows[i] = map[string]any{}
			for j, v := range row {
				rows[i][member(s.Columns[j])] = v.JSON
			}
		}
		switch {
		case s.Columns != nil:
			m["items"] = rows
		case s.Messages != nil:
			m["items"] = s.Messages
		case s.Tree != nil:
			m["tree"] = s.Tree
		}
		members[s.Key] = m
	}
	text, err := json.Marshal(members)
	for _, r := range string(text) {
		if !steers(r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(out, `\u%04x`, unit)
		}
	}
	return err
}

func member(name string) string { return strings.ReplaceAll(strings.ToLower(name), " ", "_") }

// Navigation returns the pages that the viewer may open.
func (l *look) Navigation() (all []value) {
	names := []string{"Sessions", "Plans", "Approvals", "Leases", "Streams", "Usage", "Audit"}
	if l.access.AllNamespaces {
		names = append(names, "Namespaces", "Health")
	}
	for _, name := range names {
		all = append(all, link(l.url("/"+strings.ToLower(name)), name))
	}
	return all
}

// Home, Viewer, Namespace, Chosen and Contents are for the frame of a page.
func (l *look) Home() string      { return l.url("/") }
func (l *look) Viewer() string    { return l.access.Viewer }
func (l *look) Namespace() string { return l.namespace }
func (l *look) Chosen() bool      { return l.chosen }
func (l *look) Contents() bool    { return l.access.Contents }
