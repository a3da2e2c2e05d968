package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore/repo"
)

// listFlags are those that every list has.
type listFlags struct {
	databaseURL string
	limit       int
	after       string
	details     bool
	json        bool
}

func (f *listFlags) flags(details string, more ...urfave.Flag) []urfave.Flag {
	return append(more,
		intFlag(&f.limit, "limit", "stop after this `number` of rows, and say where to continue (otherwise: all)", 0),
		stringFlag(&f.after, "after", "continue after this `cursor`, which a list with --limit printed on stderr"),
		boolFlag(&f.details, "details", details),
		boolFlag(&f.json, "json", "print one JSON object on each line instead of a table"),
		databaseFlag(&f.databaseURL),
	)
}

// The pages of a list. The first is small, so that it is there at once. The next
// grow while what they hold is small, so that memory stays bounded.
const (
	firstPage = 100
	heavyPage = 4 << 20
)

// list is a list to print.
type list[T any] struct {
	page    func(ctx context.Context, page repo.Page) ([]T, repo.Cursor, error)
	weigh   func(T) int // its bytes, roughly
	columns []column
	cells   func(T) []string
	line    func(T) any // its JSON
	// goOn is the flag that continues the list. Empty: --after.
	goOn string
}

// print prints page after page, to the end or to the limit.
func (l list[T]) print(ctx context.Context, invocation invocation, flags listFlags) error {
	if flags.limit < 0 {
		return usageError{text: "--limit must not be negative"}
	}
	table, cursor, size, printed := newTable(invocation, l.columns...), repo.Cursor(flags.after), firstPage, 0
	for {
		asked := size
		if flags.limit > 0 {
			asked = min(asked, flags.limit-printed)
		}
		rows, next, err := l.page(ctx, repo.Page{Limit: asked, After: cursor})
		if err != nil {
			return invalidUsage(err)
		}
		if err := l.printPage(invocation, table, flags.json, rows); err != nil {
			return err
		}
		printed += len(rows)
		if next == "" {
			return nil
		}
		if flags.limit > 0 && printed >= flags.limit {
			if l.goOn == "" {
				l.goOn = "--after"
			}
			fmt.Fprintf(invocation.stderr, "there is more: %s %s\n", l.goOn, next)
			return nil
		}
		cursor, size = next, l.nextSize(asked, rows)
	}
}

func (l list[T]) printPage(invocation invocation, table *table, asJSON bool, rows []T) error {
	if asJSON {
		w := bufio.NewWriter(invocation.screen)
		for _, row := range rows {
			if err := printJSON(w, l.line(row)); err != nil {
				return err
			}
		}
		return w.Flush()
	}
	for _, row := range rows {
		table.row(l.cells(row))
	}
	return table.flush()
}

func (l list[T]) nextSize(size int, rows []T) int {
	weight := 0
	for _, row := range rows {
		weight += l.weigh(row)
	}
	if weight > heavyPage {
		return max(1, size/2)
	}
	return min(repo.MaxPageSize, size*2)
}

// invalidUsage turns a value that breaks a rule, which came from a flag, into a
// mistake in the arguments.
func invalidUsage(err error) error {
	if errors.Is(err, repo.ErrInvalid) {
		return usageError{text: strings.TrimSuffix(err.Error(), ".")}
	}
	return err
}

// parseID reads the id of a flag or argument. An empty one is zero.
func parseID(name, text string) (repo.ID, error) {
	if text == "" {
		return repo.ID{}, nil
	}
	id, err := repo.ParseID(text)
	if err != nil {
		return repo.ID{}, usageError{text: name + " is not an id: 26 letters and digits, such as 01KGGZ7Q3M0000000000000001"}
	}
	return id, nil
}

// argumentID reads the id that is the command's argument.
func argumentID(invocation invocation) (repo.ID, error) {
	if invocation.args[0] == "" {
		return repo.ID{}, usageError{text: "ID is empty"}
	}
	return parseID("ID", invocation.args[0])
}
