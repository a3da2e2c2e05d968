package cursor_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"

	"github.com/seed-df90f812/agentstore/internal/cursor"
)

var place = cursor.Place{CreatedAt: time.Date(2026, 2, 3, 4, 5, 6, 789001000, time.UTC), ID: repo.ID{1, 2, 3, 15: 16}}

func TestRoundTrip(t *testing.T) {
	for name, want := range map[string]cursor.Place{
		"usual":       place,
		"zero":        {},
		"before 1970": {CreatedAt: time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC), ID: repo.ID{15: 1}},
		"coarse":      {CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), ID: repo.ID{7}, Coarse: true},
		"latest":      {CreatedAt: time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC), ID: repo.ID{0xff, 15: 0xff}},
	} {
		for _, filter := range [][]string{nil, {""}, {"sessions", "local", "é"}} {
			got, err := cursor.Decode(cursor.Encode(want, filter...), filter...)
			if err != nil || !got.CreatedAt.Equal(want.CreatedAt) || got.ID != want.ID || got.Coarse != want.Coarse || got.CreatedAt.Location() != time.UTC {
				t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
			}
		}
	}
}

func TestCursorFitsAURL(t *testing.T) {
	text := cursor.Encode(cursor.Place{ID: repo.ID{0xff, 0xfe, 0xfb, 15: 0xff}}, "x")
	if strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Errorf("the cursor %q has to be escaped in a URL", text)
	}
}

func TestOtherFilter(t *testing.T) {
	text := cursor.Encode(place, "sessions", "local", "")
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
		_, err := cursor.Decode(text, filter...)
		if err == nil || !strings.Contains(err.Error(), "another filter") {
			t.Errorf("with filter %q: %v", filter, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	good := cursor.Encode(place, "x")
	raw, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(i int, value byte) string {
		other := append([]byte(nil), raw...)
		other[i] = value
		return base64.RawURLEncoding.EncodeToString(other)
	}
	for name, text := range map[string]string{
		"empty":              "",
		"other text":         "next page",
		"shorter":            good[:len(good)-4],
		"longer":             good + "AAAA",
		"padded":             good + "=",
		"a line break":       good[:8] + "\n" + good[8:],
		"another version":    changed(0, 2),
		"time beyond 9999":   changed(9, 0x7f),
		"time before year 1": changed(9, 0x80),
		"very long":          strings.Repeat("A", 1_000_000),
	} {
		if _, err := cursor.Decode(text, "x"); err == nil {
			t.Errorf("%s: accepted", name)
		} else if !strings.Contains(err.Error(), "not a cursor") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Decode accepts only what Encode returns: there is one text for each place.
func FuzzDecode(f *testing.F) {
	f.Add(cursor.Encode(place, "x"), "x")
	f.Add(cursor.Encode(cursor.Place{}, ""), "")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, text, filter string) {
		got, err := cursor.Decode(text, filter)
		if err != nil {
			return
		}
		if again := cursor.Encode(got, filter); again != text {
			t.Errorf("%q is accepted and encoded as %q", text, again)
		}
	})
}
