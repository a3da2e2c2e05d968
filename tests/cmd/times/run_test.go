package main

import (
	"bufio"
	"strings"
	"testing"
)

func summary(t *testing.T, events string) (text string, passed bool) {
	t.Helper()
	var out strings.Builder
	r := newRun(bufio.NewWriter(&out))
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	r.summarize(3)
	if err := r.out.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String(), r.passed()
}

// What failed is printed, with what it printed, and what passed is not.
func TestFailure(t *testing.T) {
	t.Parallel()
	text, passed := summary(t, `{"Action":"start","Package":"host/owner/a"}
{"Action":"output","Package":"host/owner/a","Test":"TestGood","Output":"quiet\n"}
{"Action":"pass","Package":"host/owner/a","Test":"TestGood","Elapsed":1}
{"Action":"output","Package":"host/owner/a","Test":"TestBad/part","Output":"loud\n"}
{"Action":"fail","Package":"host/owner/a","Test":"TestBad/part","Elapsed":2}
{"Action":"fail","Package":"host/owner/a","Test":"TestBad","Elapsed":5}
{"Action":"output","Package":"host/owner/a","Output":"FAIL host/owner/a\n"}
{"Action":"fail","Package":"host/owner/a","Elapsed":6}
`)
	if passed || !strings.Contains(text, "loud\nFAIL host/owner/a\n") || strings.Contains(text, "quiet") {
		t.Errorf("passed %v:\n%s", passed, text)
	}
	words := strings.Join(strings.Fields(text), " ")
	for _, want := range []string{" a 6.0 3 ", " a TestBad 3.0 ", " 3 tests and subtests, 2 failed, 0 skipped"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// A run has passed only if there was one, and it came to its end.
func TestPassed(t *testing.T) {
	t.Parallel()
	const start, pass = `{"Action":"start","Package":"p"}` + "\n", `{"Action":"pass","Package":"p","Elapsed":2}` + "\n"
	const broken = `{"ImportPath":"p","Action":"build-output","Output":"syntax error\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
`
	for events, want := range map[string]bool{"": false, start: false, start + pass: true, start + pass + start: false, start + broken: false} {
		text, passed := summary(t, events)
		if passed != want || strings.Contains(events, "syntax") != strings.Contains(text, "syntax error") {
			t.Errorf("%s: %v\n%s", events, passed, text)
		}
	}
}
