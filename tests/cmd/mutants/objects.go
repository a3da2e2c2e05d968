package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// query changes a query of sqlc, or one of its CTEs: its name, a dot, and the CTE's.
func query(name string, k kind) change {
	of, _, _ := strings.Cut(name, ".")
	return change{
		place: "query " + name, what: k.String(), about: k.about, query: of,
		find: func(t *tree) (edited, error) {
			s, err := t.query(name)
			if err != nil {
				return edited{}, err
			}
			return s.changed(k)
		},
	}
}

func (s *sqlScope) changed(k kind) (edited, error) {
	if k.inSQL == nil {
		return edited{}, errNotHere
	}
	edits, err := choose(s.text, s.tokens, k.about, k.inSQL(s))
	return edited{path: s.path, text: s.text, edits: edits}, err
}

var queryName = regexp.MustCompile(`(?m)^-- name: (\w+) .*$`)

func (t *tree) query(name string) (*sqlScope, error) {
	files, err := t.read("queries")
	if err != nil {
		return nil, err
	}
	return queryIn(files, name)
}

func queryIn(files []sqlFile, name string) (*sqlScope, error) {
	name, cte, _ := strings.Cut(name, ".")
	for _, f := range files {
		found := queryName.FindAllStringSubmatchIndex(f.text, -1)
		for i, at := range found {
			if f.text[at[2]:at[3]] != name {
				continue
			}
			end := len(f.text)
			if i+1 < len(found) {
				end = found[i+1][0]
			}
			s := scanSQL(f.path, f.text, at[0], end)
			if cte == "" {
				return s, nil
			}
			return s, s.narrow(cte)
		}
	}
	return nil, errors.New("there is no such query")
}

// narrow leaves the CTE of a name.
func (s *sqlScope) narrow(cte string) error {
	var names []string
	for i := range s.tokens {
		if !s.words(i+1, "AS") || i > 0 && !slices.Contains([]string{"WITH", "RECURSIVE", ","}, s.word(i-1)) {
			continue
		}
		begin := i + 2
		for slices.Contains([]string{"NOT", "MATERIALIZED"}, s.word(begin)) {
			begin++
		}
		end, opens := s.pair[begin]
		if !opens {
			continue
		}
		if s.tokens[i].text == cte {
			s.lo, s.hi = begin+1, end
			return nil
		}
		names = append(names, s.tokens[i].text)
	}
	return fmt.Errorf("the query has no such part. It has %s", strings.Join(names, ", "))
}

type sqlFile struct{ path, text string }

// read returns the files of a directory of SQL.
func (t *tree) read(dir string) (files []sqlFile, err error) {
	names, err := filepath.Glob(filepath.Join(t.root, filepath.FromSlash(dir), "*.sql"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, sqlFile{path.Join(dir, filepath.Base(name)), string(text)})
	}
	return files, nil
}

// definition finds the last definition that the pattern matches in what the migrations do when
// they are applied. end is where that ends in the file.
func (t *tree) definition(pattern string) (f sqlFile, at []int, end int, err error) {
	files, err := t.read("schema/migrations")
	if err != nil {
		return f, nil, 0, err
	}
	expression := regexp.MustCompile(pattern)
	for _, f := range slices.Backward(files) {
		end := len(f.text)
		if down := strings.LastIndex(f.text, "-- +goose Down"); down >= 0 {
			end = down
		}
		if found := expression.FindAllStringSubmatchIndex(f.text[:end], -1); len(found) > 0 {
			return f, found[len(found)-1], end, nil
		}
	}
	return f, nil, 0, errors.New("the migrations do not define it")
}

func ofSchema(place string, k kind, find func(*tree) (*sqlScope, error)) change {
	return change{
		place: place, what: k.String(), about: k.about,
		find: func(t *tree) (edited, error) {
			s, err := find(t)
			if err != nil {
				return edited{}, err
			}
			return s.changed(k)
		},
	}
}

// function changes the body of a function of the schema.
func function(name string, k kind) change {
	return ofSchema("function "+name, k, func(t *tree) (*sqlScope, error) {
		f, at, end, err := t.definition(`FUNCTION (?:\{schema\}\.)?` + name + `\((?s:.*?)\bAS (\$\w*\$)`)
		if err != nil {
			return nil, err
		}
		length := strings.Index(f.text[at[1]:end], f.text[at[2]:at[3]])
		if length < 0 {
			return nil, errors.New("its body has no end")
		}
		return scanSQL(f.path, f.text, at[1], at[1]+length), nil
	})
}

// executed changes the statement that a trigger's function executes in the schema of its table.
func executed(name string, k kind) change {
	return ofSchema("function "+name, k, func(t *tree) (*sqlScope, error) {
		f, at, end, err := t.definition(`FUNCTION ` + name + `\((?s:.*?)\bEXECUTE format\('`)
		if err != nil {
			return nil, err
		}
		length := strings.Index(f.text[at[1]:end], "', TG_TABLE_SCHEMA")
		if length < 0 {
			return nil, errors.New("its statement has no end")
		}
		return scanSQL(f.path, f.text, at[1], at[1]+length), nil
	})
}

// dropRule drops a rule of the function that checks a table's rows.
func dropRule(name string) change {
	return change{place: "rule " + name, what: "drop", find: func(t *tree) (edited, error) {
		f, at, _, err := t.definition(`WHEN NOT [^;]*?\bTHEN '` + name + `'`)
		if err != nil {
			return edited{}, err
		}
		when := strings.LastIndex(f.text[:at[1]], "WHEN NOT")
		return edited{path: f.path, text: f.text, edits: []edit{{when, when + len("WHEN"), "WHEN false AND"}}}, nil
	}}
}

const triggerPattern = `(?m)^CREATE TRIGGER %s\b[^;]*? ON (\w+)[^;]*;`

// trigger changes the definition of a trigger.
func trigger(name string, k kind) change {
	return ofSchema("trigger "+name, k, func(t *tree) (*sqlScope, error) {
		f, at, _, err := t.definition(fmt.Sprintf(triggerPattern, name))
		if err != nil {
			return nil, err
		}
		return scanSQL(f.path, f.text, at[0], at[1]), nil
	})
}

const constraintPattern = `(?m)^\s*(?:ADD )?CONSTRAINT %s\b`

// constraint changes the definition of a constraint.
func constraint(name string, k kind) change {
	return ofSchema("constraint "+name, k, func(t *tree) (*sqlScope, error) {
		f, at, end, err := t.definition(fmt.Sprintf(constraintPattern, name))
		if err != nil {
			return nil, err
		}
		s := scanSQL(f.path, f.text, at[1], end)
		for i := 0; i < s.hi; i = s.next(i) {
			if slices.Contains([]string{",", ")", ";"}, s.word(i)) {
				s.hi = i
			}
		}
		return s, nil
	})
}

// dropped undoes a definition at the end of the migration.
func dropped(place string, statement func(*tree) (f sqlFile, end int, statement string, err error)) change {
	return change{place: place, what: "drop", find: func(t *tree) (edited, error) {
		f, end, text, err := statement(t)
		return edited{path: f.path, text: f.text, edits: []edit{{end, end, text + ";\n\n"}}}, err
	}}
}

func dropTrigger(name string) change {
	return dropped("trigger "+name, func(t *tree) (sqlFile, int, string, error) {
		f, at, end, err := t.definition(fmt.Sprintf(triggerPattern, name))
		if err != nil {
			return f, 0, "", err
		}
		return f, end, "DROP TRIGGER " + name + " ON " + f.text[at[2]:at[3]], nil
	})
}

var table = regexp.MustCompile(`(?m)^(?:CREATE|ALTER) TABLE (\w+)`)

func dropConstraint(name string) change {
	return dropped("constraint "+name, func(t *tree) (sqlFile, int, string, error) {
		f, at, end, err := t.definition(fmt.Sprintf(constraintPattern, name))
		if err != nil {
			return f, 0, "", err
		}
		tables := table.FindAllStringSubmatch(f.text[:at[0]], -1)
		if len(tables) == 0 {
			return f, 0, "", errors.New("it has no table")
		}
		return f, end, "ALTER TABLE " + tables[len(tables)-1][1] + " DROP CONSTRAINT " + name + " CASCADE", nil
	})
}

// notAlways leaves out that a trigger fires whatever session_replication_role is.
func notAlways(name string) change {
	return change{place: "trigger " + name, what: "not always", find: func(t *tree) (edited, error) {
		f, at, _, err := t.definition(`(?m)^ALTER TABLE \w+ ENABLE ALWAYS TRIGGER ` + name + `;`)
		if err != nil {
			return edited{}, err
		}
		return edited{path: f.path, text: f.text, edits: []edit{{at[0], at[1], ""}}}, nil
	}}
}
