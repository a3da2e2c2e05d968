package main

import (
	"bytes"
	"os"
	"testing"
)

// The file is what the command writes.
func TestCurrent(t *testing.T) {
	t.Parallel()
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../../../" + file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("make generate writes something else than %s (%v)", file, err)
	}
}
