package cursor_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"

	"github.com/seed-df90f812/agentstore/internal/cursor"
)

type place struct {
	Name string
	At   time.Time
	ID   repo.ID
}

var some = place{"host:team/review", time.Date(2026, 2, 3, 4, 5, 6, 789001000, time.UTC), repo.ID{1, 2, 3, 15: 16}}

func TestRoundTrip(t *testing.T) {
	for name, want := range map[string]place{
		"usual":       some,
		"zero":        {},
		"before 1970": {"é😀", time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC), repo.ID{15: 1}},
		"latest":      {"<\x01\n", time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC), repo.ID{0xff, 15: 0xff}},
		"longest":     {Name: strings.Repeat("\x01", 1024+255)},
	} {
		for _, filter := range [][]string{nil, {""}, {"sessions", "local", "é"}} {
			text := cursor.Encode(want, filter...)
			if got, err := cursor.Decode[place](text, filter...); err != nil || got != want {
				t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
			}
			if strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
				t.Errorf("%s: the cursor %q has to be escaped in a URL", name, text)
			}
		}
	}
}

func TestOtherFilter(t *testing.T) {
	text := cursor.Encode(some, "sessions", "local", "")
	for _, filter := range [][]string{
		nil,
		{"sessions"},
		{"sessions", "local"},
		{"sessions", "local", "", ""},
		{"sessions", "other", ""},
		{"sessionslocal", "", ""},
		{"sessions", "", "local"},
		{"session", "slocal", ""},
	} {
		_, err := cursor.Decode[place](text, filter...)
		if err == nil || !strings.Contains(err.Error(), "another filter") {
			t.Errorf("with filter %q: %v", filter, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	good := cursor.Encode(some, "x")
	raw, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	with := func(json string) string { return base64.RawURLEncoding.EncodeToString([]byte(string(raw[:8]) + json)) }
	for name, text := range map[string]string{
		"empty":                 "",
		"other text":            "next page",
		"shorter":               good[:len(good)-4],
		"longer":                good + "AAAA",
		"padded":                good + "=",
		"a line break":          good[:8] + "\n" + good[8:],
		"a return":              good[:8] + "\r" + good[8:],
		"no place":              with(""),
		"cut":                   base64.RawURLEncoding.EncodeToString(raw[:5]),
		"another kind of place": cursor.Encode("name", "x"),
		"another form":          with(string(raw[8:]) + " "),
		"another spelling":      with(strings.ToLower(string(raw[8:]))),
		"another field":         with(`{"More":1,` + string(raw[9:])),
		"no text":               with(strings.ReplaceAll(string(raw[8:]), "team", "\xff")),
		"time beyond 9999":      with(strings.ReplaceAll(string(raw[8:]), "2026", "12026")),
		"time before year 1":    with(strings.ReplaceAll(string(raw[8:]), "2026", "-2026")),
		"too long":              cursor.Encode(place{Name: strings.Repeat("n", 16<<10)}, "x"),
		"very long":             strings.Repeat("A", 1_000_000),
	} {
		if got, err := cursor.Decode[place](text, "x"); err == nil || got != (place{}) {
			t.Errorf("%s: accepted: %v", name, got)
		} else if !strings.Contains(err.Error(), "not a cursor") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Decode accepts only what Encode returns: there is one text for each place.
func FuzzDecode(f *testing.F) {
	f.Add(cursor.Encode(some, "x"), "x")
	f.Add(cursor.Encode(place{}, ""), "")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, text, filter string) {
		got, err := cursor.Decode[place](text, filter)
		if err != nil {
			return
		}
		if again := cursor.Encode(got, filter); again != text {
			t.Errorf("%q is accepted and encoded as %q", text, again)
		}
	})
}
