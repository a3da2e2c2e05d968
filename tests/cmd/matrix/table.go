package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// printTable prints a row for each cell and a column for each package.
func printTable(w io.Writer, cells []cell, results []result) {
	var columns []string
	for _, c := range cells {
		for _, tests := range c.tests {
			if !slices.Contains(columns, tests.pkg) {
				columns = append(columns, tests.pkg)
			}
		}
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "version, setting")
	for _, column := range columns {
		fmt.Fprint(table, "\t", column)
	}
	fmt.Fprintln(table)
	for _, c := range cells {
		fmt.Fprint(table, c.name)
		for _, column := range columns {
			text := "-"
			for _, r := range results {
				if r.cell.name == c.name && r.tests.pkg == column {
					text = r.String()
					if r.tests.run != "" {
						text += " *"
					}
				}
			}
			fmt.Fprint(table, "\t", text)
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush()
	fmt.Fprintln(w, "* the conformance suite alone")
}
