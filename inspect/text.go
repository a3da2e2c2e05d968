package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxShown = 64 << 10 // of a text
	folded   = 600      // a longer one is folded
	maxEvent = 1 << 20  // of a message that comes, escaped twice
)

// grouped writes a number with its thousands apart.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// clip cuts a text to a number of bytes, between characters.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

// steers reports whether a character does more than appear: it changes the direction of a line, hides, or is a command
// to the terminal into which it is pasted.
func steers(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector) && r != '\n' &&
		r != '\t'
}

// visible shows such characters instead of obeying them.
func visible(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, steers) < 0 {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, s[i])
		case steers(r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
		i += size
	}
	return out.String()
}

// words writes a name such as VacuumedAt as "Vacuumed at".
func words(name string) string {
	var out strings.Builder
	for i, r := range name {
		switch {
		case i == 0:
			r = unicode.ToUpper(r)
		case unicode.IsUpper(r) && !unicode.IsUpper(rune(name[i-1])):
			out.WriteByte(' ')
			fallthrough
		case unicode.IsUpper(r):
			r = unicode.ToLower(r)
		}
		out.WriteRune(r)
	}
	return out.String()
}
