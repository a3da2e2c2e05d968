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
	// name begins with what it is about: "plans/transition without its version".
	name string
	// file is the path in the tree. old stands in it exactly once, and becomes new.
	file, old, new string
	// tests are those that must fail.
	tests []tests
	// equivalent says why no test can notice it. Such a mutant is made all the
	// same, so that the sentence stays true.
	equivalent string
}

// tests are the tests of a package, below the root, that run matches.
type tests struct{ pkg, run string }

// all are the mutants, in the order in which they are made.
func all() []mutant {
	return slices.Concat(
		lifecycleMutants, internalMutants, memoryMutants, schedulerMutants, writerMutants, spoolMutants, verifyMutants, redactMutants,
		migratorMutants, errorMutants, executorMutants, usageMutants, planMutants, planGoMutants, actionMutants, filterMutants,
		schemaMutants, auditSQLMutants, appendMutants,
	)
}

// generates reports whether db/ has to be generated anew.
func (m mutant) generates() bool {
	return strings.HasPrefix(m.file, "queries/") || strings.HasPrefix(m.file, "schema/migrations/")
}

// apply changes the file below root, and returns what puts it back.
func (m mutant) apply(root string) (restore func() error, err error) {
	path := filepath.Join(root, filepath.FromSlash(m.file))
	before, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if count := strings.Count(string(before), m.old); count != 1 {
		return nil, fmt.Errorf("the text to be changed is %d times in %s", count, m.file)
	}
	after := strings.Replace(string(before), m.old, m.new, 1)
	if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
		return nil, err
	}
	return func() error { return os.WriteFile(path, before, 0o644) }, nil
}
