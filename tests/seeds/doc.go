// Package seeds holds a test for each bug report that this project exists to
// make impossible. Each has the report's naive way beside ours, under the same
// harness: the naive one must be seen to fail, so that the harness is known to
// catch it.
package seeds
