package repo_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
)

func TestJoinKey(t *testing.T) {
	for _, test := range []struct {
		parts []string
		want  string
	}{
		{[]string{"acme", "support", "42", "1"}, "acme/support/42/1"},
		{[]string{"a"}, "a"},
		{[]string{""}, ""},
		{[]string{"", ""}, "/"},
		{[]string{"a", ""}, "a/"},
		{[]string{"", "a"}, "/a"},
		{[]string{"a/b", "c"}, "a~1b/c"},
		{[]string{"a", "b/c"}, "a/b~1c"},
		{[]string{"a~b"}, "a~0b"},
		{[]string{"~1"}, "~01"},
		{[]string{"~01", "~"}, "~001/~0"},
		{[]string{"//", "~~"}, "~1~1/~0~0"},
		{[]string{"é", "😀", " \n"}, "é/😀/ \n"},
		{[]string{strings.Repeat("x", 127), strings.Repeat("y", 127)}, strings.Repeat("x", 127) + "/" + strings.Repeat("y", 127)},
		{[]string{"\xff/", "\xc3"}, "\xff~1/\xc3"}, // Create refuses it
	} {
		got := repo.JoinKey(test.parts...)
		if got != test.want {
			t.Errorf("%q is joined to %q, want %q", test.parts, got, test.want)
		}
		if again := adapter.SplitKey(got); !slices.Equal(again, test.parts) {
			t.Errorf("%q is split into %q, was %q", got, again, test.parts)
		}
	}
}

func FuzzJoinKey(f *testing.F) {
	f.Add("a", "b", "c", "d")
	f.Add("a/b", "", "~", "~1")
	f.Add("\xff", "~0", "/", "~01")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		first, second := []string{a, b}, []string{c, d}
		for _, parts := range [][]string{{a}, first, second, {a, b, c, d}} {
			if got := adapter.SplitKey(repo.JoinKey(parts...)); !slices.Equal(got, parts) {
				t.Errorf("%q became %q", parts, got)
			}
		}
		if repo.JoinKey(first...) == repo.JoinKey(second...) != slices.Equal(first, second) {
			t.Errorf("%q and %q are joined to %q and %q", first, second, repo.JoinKey(first...), repo.JoinKey(second...))
		}
		// Two joined parts are not one.
		if repo.JoinKey(first...) == repo.JoinKey(c) {
			t.Errorf("%q and %q are joined to %q", first, c, repo.JoinKey(c))
		}
	})
}
