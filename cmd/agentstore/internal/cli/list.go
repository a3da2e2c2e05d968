package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// The sizes of a list's pages. The first page is small, so that it appears at once.
// Later ones grow as long as the rows are small, so that memory stays bounded.
const (
	firstPage = 100
	heavyPage = 4 << 20
)

// list is a command that prints a list.
type list[T any] struct {
	leaf
	page    func(ctx context.Context, invocation invocation, store *agentstore.Store, page repo.Page) ([]T, string, error)
	weigh   func(T) int // its approximate size in bytes
	columns []column    // the last one is shown only with --details
	cells   func(T) []any
	line    func(row T, details bool) any // its JSON
	// goOn is the flag that continues the list. Empty: --after.
	goOn string

	limit int
	after string
}

func (l list[T]) command(world invocation) *urfave.Command {
	l.flags = append(l.flags, countFlag(&l.limit, "limit", "stop after this `number` of rows, and print how to continue (otherwise: all)"))
	if l.goOn == "" {
		l.goOn = "--after"
		l.flags = append(l.flags, stringFlag(&l.after, "after", "continue after this `cursor`, which a list with --limit printed on stderr"))
	}
	l.json = "print one JSON object on each line instead of a table"
	l.onStore = l.print
	return l.leaf.command(world)
}

// print prints page after page, up to the end or the limit.
func (l *list[T]) print(ctx context.Context, invocation invocation, store *agentstore.Store) error {
	if !invocation.details {
		l.columns = l.columns[:len(l.columns)-1]
	}
	table, cursor, size, printed := newTable(invocation, l.columns...), l.after, firstPage, 0
	for {
		asked := size
		if l.limit > 0 {
			asked = min(asked, l.limit-printed)
		}
		rows, next, err := l.page(ctx, invocation, store, repo.Page{Limit: asked, After: cursor})
		if invalid, ok := errors.AsType[*repo.InvalidError](err); ok && invalid.Field == "page.after" {
			return usageError{text: l.goOn + " " + invalid.Reason}
		}
		if err != nil {
			return invalidUsage(err)
		}
		if err := l.printPage(invocation, table, rows); err != nil {
			return err
		}
		printed += len(rows)
		if next == "" {
			return nil
		}
		if l.limit > 0 && printed >= l.limit {
			fmt.Fprintf(invocation.stderr, "there is more: %s %s\n", l.goOn, next)
			return nil
		}
		cursor, size = next, l.nextSize(asked, rows)
	}
}

func (l *list[T]) printPage(invocation invocation, table *table, rows []T) error {
	w := bufio.NewWriter(invocation.screen)
	for _, row := range rows {
		if invocation.json {
			if err := printJSON(w, l.line(row, invocation.details)); err != nil {
				return err
			}
			continue
		}
		table.row(texts(l.cells(row)[:len(l.columns)]...))
	}
	if invocation.json {
		return w.Flush()
	}
	return table.flush()
}

func (l *list[T]) nextSize(size int, rows []T) int {
	weight := 0
	for _, row := range rows {
		weight += l.weigh(row)
	}
	if weight > heavyPage {
		return max(1, size/2)
	}
	return min(repo.MaxPageSize, size*2)
}

// invalidUsage turns the error of an invalid value, which came from a flag, into a
// usage error.
func invalidUsage(err error) error {
	if errors.Is(err, repo.ErrInvalid) {
		return usageError{text: strings.TrimSuffix(err.Error(), ".")}
	}
	return err
}
