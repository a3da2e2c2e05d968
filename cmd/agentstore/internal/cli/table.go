package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// column is a column of a table: its heading, and whether it contains numbers,
// which are aligned to the right.
type column struct {
	name   string
	number bool
}

// maxCell is the width at which a cell is cut off, unless it is the last of its
// row.
const maxCell = 40

// table prints rows a page at a time, so that the first appear at once and memory
// does not grow with their number. A column is as wide as its widest cell so far.
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
	names := make([]string, len(columns))
	for i, column := range columns {
		names[i], t.widths = column.name, append(t.widths, cells(column.name))
	}
	t.rows = append(t.rows, names)
	return t
}

// headings returns columns. A number sign before a name marks a column of numbers.
func headings(names ...string) (columns []column) {
	for _, name := range names {
		name, number := strings.CutPrefix(name, "#")
		columns = append(columns, column{name, number})
	}
	return columns
}

// row adds a row of stored values, which may contain characters that steer a
// terminal.
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

// flush prints the added rows.
func (t *table) flush() error {
	for _, row := range t.rows {
		t.print(row)
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

func (t *table) print(row []string) {
	style := ""
	if !t.headed {
		t.headed, style = true, bold
	}
	for i, cell := range row {
		padding := strings.Repeat(" ", max(0, t.widths[i]-cells(cell)))
		colour := style
		if colour == "" && t.columns[i].name == stageColumn {
			_, state, _ := strings.Cut(cell, "/")
			colour = stateColours[repo.PlanState(state)]
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

// stageColumn is the column with coloured values.
const stageColumn = "STAGE"

var stateColours = map[repo.PlanState]string{
	repo.PlanErrored: red, repo.PlanApplied: green, repo.PlanComplete: green, repo.PlanCancelled: faint,
}

// field is a line in the description of one entity. Without a value it is omitted.
type field struct {
	name  string
	value any
}

// printFields prints one field per line. Further lines of a value are indented.
func printFields(invocation invocation, fields ...field) error {
	fields = slices.DeleteFunc(fields, func(f field) bool { return textOf(f.value) == "" })
	wide := 0
	for _, field := range fields {
		wide = max(wide, cells(field.name))
	}
	w := bufio.NewWriter(invocation.screen)
	for _, field := range fields {
		name := field.name + ":" + strings.Repeat(" ", wide-cells(field.name))
		if invocation.colour {
			name = bold + name + reset
		}
		value := strings.ReplaceAll(lines(textOf(field.value)), "\n", "\n"+strings.Repeat(" ", wide+3))
		fmt.Fprintf(w, "%s  %s\n", name, value)
	}
	return w.Flush()
}

// texts returns the cells of a row.
func texts(values ...any) []string {
	cells := make([]string, len(values))
	for i, value := range values {
		cells[i] = textOf(value)
	}
	return cells
}

// textOf returns a value as people read it. A missing value is empty.
func textOf(value any) string {
	if thing, ok := value.(interface{ IsZero() bool }); ok && thing.IsZero() {
		return ""
	}
	switch value := value.(type) {
	case time.Time:
		return value.UTC().Format("2006-01-02 15:04:05Z")
	case repo.Stage:
		return strings.Trim(string(value.Phase)+"/"+string(value.State), "/")
	case []string:
		return strings.Join(value, ", ")
	case json.RawMessage:
		return string(value)
	}
	if pointer := reflect.ValueOf(value); pointer.Kind() == reflect.Pointer {
		if pointer.IsNil() {
			return ""
		}
		value = pointer.Elem().Interface()
	}
	return fmt.Sprint(value)
}
