package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// column is a column of a table: its heading, and whether its cells are numbers,
// which stand at the right.
type column struct {
	name   string
	number bool
}

// maxCell is where a cell that is not the last of its row is cut off.
const maxCell = 40

// table prints rows a page at a time, so that the first are there at once and
// memory does not grow with their number. A column is as wide as the widest cell
// so far.
type table struct {
	w       *bufio.Writer
	colour  bool
	columns []column
	widths  []int
	rows    [][]string
	headed  bool
}

func newTable(invocation invocation, columns ...column) *table {
	t := &table{w: bufio.NewWriter(invocation.screen), colour: invocation.colour, columns: columns}
	for _, column := range columns {
		t.widths = append(t.widths, cells(column.name))
	}
	return t
}

// row adds a row. Cells are stored values: they need not be fit for a terminal.
func (t *table) row(values []string) {
	row := make([]string, len(values))
	for i, value := range values {
		row[i] = oneLine(value)
		if i < len(values)-1 {
			row[i] = clipped(row[i], maxCell)
			t.widths[i] = max(t.widths[i], cells(row[i]))
		}
	}
	t.rows = append(t.rows, row)
}

// flush prints the rows that were added.
func (t *table) flush() error {
	if !t.headed {
		t.headed = true
		names := make([]string, len(t.columns))
		for i, column := range t.columns {
			names[i] = column.name
		}
		t.print(names, bold)
	}
	for _, row := range t.rows {
		t.print(row, "")
	}
	t.rows = t.rows[:0]
	return t.w.Flush()
}

const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	faint = "\x1b[2m"
	reset = "\x1b[0m"
)

func (t *table) print(row []string, style string) {
	for i, cell := range row {
		padding := strings.Repeat(" ", max(0, t.widths[i]-cells(cell)))
		colour := style
		if colour == "" && t.columns[i].name == stageColumn {
			colour = stageColour(cell)
		}
		if t.colour && colour != "" {
			cell = colour + cell + reset
		}
		switch {
		case t.columns[i].number:
			cell = padding + cell
		case i < len(row)-1:
			cell += padding
		}
		if i > 0 {
			cell = "  " + cell
		}
		_, _ = t.w.WriteString(cell) // Flush returns the error
	}
	_ = t.w.WriteByte('\n')
}

// stageColumn is the one whose values have colours.
const stageColumn = "STAGE"

func stageColour(stage string) string {
	_, state, _ := strings.Cut(stage, "/")
	switch repo.PlanState(state) {
	case repo.StateErrored:
		return red
	case repo.StateApplied, repo.StateComplete:
		return green
	case repo.StateCancelled:
		return faint
	}
	return ""
}

// field is a line of what one thing is shown as. Without a value it is left out.
type field struct{ name, value string }

// printFields prints fields under each other. Further lines of a value are
// indented.
func printFields(invocation invocation, fields ...field) error {
	wide := 0
	for _, field := range fields {
		if field.value != "" {
			wide = max(wide, cells(field.name))
		}
	}
	w := bufio.NewWriter(invocation.screen)
	for _, field := range fields {
		if field.value == "" {
			continue
		}
		name := field.name + ":" + strings.Repeat(" ", wide-cells(field.name))
		if invocation.colour {
			name = bold + name + reset
		}
		value := strings.ReplaceAll(lines(field.value), "\n", "\n"+strings.Repeat(" ", wide+3))
		fmt.Fprintf(w, "%s  %s\n", name, value)
	}
	return w.Flush()
}

// printSection prints a table with a heading above it, below fields.
func printSection(w io.Writer, name string) { fmt.Fprintf(w, "\n%s\n", name) }

// when is a time for people, in UTC.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// stamp is a time for programs: to the microsecond, as it is stored.
type stamp time.Time

func (s stamp) MarshalJSON() ([]byte, error) {
	return []byte(time.Time(s).UTC().Format(`"2006-01-02T15:04:05.000000Z"`)), nil
}

func stampOf(t time.Time) *stamp {
	if t.IsZero() {
		return nil
	}
	s := stamp(t)
	return &s
}

func idOf(id repo.ID) *repo.ID {
	if id.IsZero() {
		return nil
	}
	return &id
}

func optional(id repo.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}
