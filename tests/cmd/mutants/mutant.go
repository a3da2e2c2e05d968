package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one small change that some test must notice.
type mutant struct {
	// name begins with its subject: "plans/transition without its version".
	name string
	// file is the path in the tree. old occurs in it exactly once, and becomes new.
	file, old, new string
	// tests must fail.
	tests []tests
	// equivalent says why no test can notice it. Such a mutant is still tried, to check
	// that this remains true.
	equivalent string
}

// tests are those of a package that run matches. pkg is relative to the root.
type tests struct{ pkg, run string }

// all returns the mutants in the order in which they are tried.
func all() []mutant {
	return slices.Concat(
		lifecycleMutants, internalMutants, memoryMutants, schedulerMutants, writerMutants, spoolMutants, verifyMutants, redactMutants,
		migratorMutants, errorMutants, executorMutants, usageMutants, planMutants, planGoMutants, actionMutants, filterMutants,
		schemaMutants, auditSQLMutants, appendMutants, sessionMutants, stateMutants, leaseMutants, fenceMutants, streamMutants, readMutants, turnMutants, followMutants,
		liveMutants, claimMutants, moveMutants,
	)
}

// generates reports whether db/ has to be generated again.
func (m mutant) generates() bool {
	return strings.HasPrefix(m.file, "queries/") || strings.HasPrefix(m.file, "schema/migrations/")
}

// apply changes the file below root. restore undoes the change.
func (m mutant) apply(root string) (restore func() error, err error) {
	path := filepath.Join(root, filepath.FromSlash(m.file))
	before, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if count := strings.Count(string(before), m.old); count != 1 {
		return nil, fmt.Errorf("the text to be changed occurs %d times in %s", count, m.file)
	}
	after := strings.Replace(string(before), m.old, m.new, 1)
	if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
		return nil, err
	}
	return func() error { return os.WriteFile(path, before, 0o644) }, nil
}
