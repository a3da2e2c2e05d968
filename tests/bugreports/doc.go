// Package bugreports has a test for each bug report that this project exists to make
// impossible. Each runs the report's naive implementation beside ours, under the same
// harness. The naive one must fail, to show that the harness can find the bug.
package bugreports
