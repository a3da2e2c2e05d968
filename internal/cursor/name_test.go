package cursor_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/cursor"
)

func TestNameRoundTrip(t *testing.T) {
	for _, want := range []string{"a", "host:team/review", "é😀", "\x00\xff\n", strings.Repeat("\xff", 16), strings.Repeat("n", 1024)} {
		for _, filter := range [][]string{nil, {""}, {"actions", "", "local"}} {
			text := cursor.EncodeName(want, filter...)
			got, err := cursor.DecodeName(text, filter...)
			if err != nil || got != want {
				t.Errorf("%q: got %q, %v", want, got, err)
			}
			if strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
				t.Errorf("the cursor %q has to be escaped in a URL", text)
			}
		}
	}
}

func TestNameOtherFilter(t *testing.T) {
	text := cursor.EncodeName("a", "actions", "", "local")
	for _, filter := range [][]string{
		nil, {"actions"}, {"actions", "", "local", ""}, {"actions", "local", ""}, {"plans", "", "local"}, {"actionslocal", "", ""},
	} {
		_, err := cursor.DecodeName(text, filter...)
		if err == nil || !strings.Contains(err.Error(), "another filter") {
			t.Errorf("with filter %q: %v", filter, err)
		}
	}
}

func TestNameMalformed(t *testing.T) {
	good := cursor.EncodeName("name", "x")
	raw, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":            "",
		"other text":       "next page",
		"no name":          base64.RawURLEncoding.EncodeToString(raw[:9]),
		"cut":              base64.RawURLEncoding.EncodeToString(raw[:5]),
		"padded":           good + "=",
		"a line break":     good[:8] + "\n" + good[8:],
		"a return":         good[:8] + "\r" + good[8:],
		"another version":  base64.RawURLEncoding.EncodeToString(append([]byte{3}, raw[1:]...)),
		"a place's cursor": cursor.Encode(place, "x"),
		"too long":         cursor.EncodeName(strings.Repeat("n", 1025), "x"),
		"very long":        strings.Repeat("A", 1_000_000),
	} {
		if _, err := cursor.DecodeName(text, "x"); err == nil {
			t.Errorf("%s: accepted", name)
		} else if !strings.Contains(err.Error(), "not a cursor") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// DecodeName accepts only what EncodeName returns: there is one text for each name.
func FuzzDecodeName(f *testing.F) {
	f.Add(cursor.EncodeName("name", "x"), "x")
	f.Add(cursor.EncodeName("é", ""), "")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, text, filter string) {
		got, err := cursor.DecodeName(text, filter)
		if err != nil {
			return
		}
		if again := cursor.EncodeName(got, filter); again != text {
			t.Errorf("%q is accepted and encoded as %q", text, again)
		}
	})
}
