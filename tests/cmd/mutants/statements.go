package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// A mutant of a query changes the text of one statement, and nothing else in db/. So package db
// of the copy takes that text from a file if the environment says so, and the tests are built
// once. The texts come from sqlc, which is run once, too: each changed query gets another name.

const replacedQuery, replacedText = "AGENTSTORE_MUTANT_QUERY", "AGENTSTORE_MUTANT_TEXT"

const replacing = `package db

import "os"

func replaced(name, text string) string {
	if os.Getenv("` + replacedQuery + `") != name {
		return text
	}
	other, err := os.ReadFile(os.Getenv("` + replacedText + `"))
	if err != nil {
		panic(err)
	}
	return string(other)
}
`

var statementText = regexp.MustCompile("(?m)^const (\\w+) = (`-- name: (\\w+) [^`]*`)$")

// readStatements returns the statements of the generated code, by their names.
func readStatements(root string) (map[string]string, error) {
	statements := map[string]string{}
	return statements, eachGenerated(root, func(_ string, content []byte) error {
		for _, found := range statementText.FindAllSubmatch(content, -1) {
			statements[string(found[3])] = strings.Trim(string(found[2]), "`")
		}
		return nil
	})
}

func eachGenerated(root string, do func(file string, content []byte) error) error {
	files, err := filepath.Glob(filepath.Join(root, "db", "*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err == nil {
			err = do(file, content)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var mutantQuery = regexp.MustCompile(`mutant_(\d+)\.sql:.*`)

// generate generates the statements of changed queries, by the numbers of their mutants. unfit
// says why some cannot be. Then it has package db take statements from a file.
func (b *bench) generate(ctx context.Context, mutants []mutant, found []edited, unfit map[int]string) error {
	files := map[int]string{}
	for i, m := range mutants {
		if m.change.query == "" {
			continue
		}
		s, err := queryIn([]sqlFile{{text: found[i].apply()}}, m.change.query)
		if err != nil {
			return err
		}
		text := strings.Replace(s.text[s.begin:s.end], "-- name: "+m.change.query+" ", "-- name: Mutant"+strconv.Itoa(i)+" ", 1)
		files[i] = filepath.Join(b.dir, "queries", "mutant_"+strconv.Itoa(i)+".sql")
		if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
			return err
		}
	}
	for {
		output, err := b.run(ctx, b.sqlc, "generate")
		if err == nil {
			break
		}
		wrong := mutantQuery.FindSubmatch(output)
		if wrong == nil {
			return errors.Join(ctx.Err(), fmt.Errorf("sqlc: %w\n%s", err, output))
		}
		i, _ := strconv.Atoi(string(wrong[1]))
		unfit[i] = string(wrong[0])
		if err := os.Remove(files[i]); err != nil {
			return err
		}
		delete(files, i)
	}
	var err error
	if b.statements, err = readStatements(b.dir); err != nil {
		return err
	}
	for _, i := range slices.Sorted(maps.Keys(files)) {
		if err := errors.Join(os.Remove(files[i]), os.Remove(filepath.Join(b.dir, "db", "mutant_"+strconv.Itoa(i)+".sql.go"))); err != nil {
			return err
		}
	}
	if output, err := b.run(ctx, b.sqlc, "generate"); err != nil {
		return fmt.Errorf("sqlc: %w\n%s", err, output)
	}
	err = eachGenerated(b.dir, func(file string, content []byte) error {
		return os.WriteFile(file, statementText.ReplaceAll(content, []byte(`var $1 = replaced("$3", $2)`)), 0o755)
	})
	return errors.Join(err, os.WriteFile(filepath.Join(b.dir, "db", "replaced.go"), []byte(replacing), 0o755))
}

// statement returns the changed text of a mutant's statement. reason says why it is none.
func (b *bench) statement(ctx context.Context, number int, query string) (text, reason string, err error) {
	text = strings.Replace(b.statements["Mutant"+strconv.Itoa(number)], "-- name: Mutant"+strconv.Itoa(number)+" ", "-- name: "+query+" ", 1)
	if text == b.statements[query] {
		return "", "the statement is as it was", nil
	}
	was, err := b.prepared(ctx, b.statements[query])
	if err != nil {
		return "", "", err
	}
	is, err := b.prepared(ctx, text)
	if _, refused := errors.AsType[*pgconn.PgError](err); refused {
		return "", err.Error(), nil
	}
	if err == nil && is != was {
		reason = "the statement has other arguments or columns"
	}
	return text, reason, err
}
