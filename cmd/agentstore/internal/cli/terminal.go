package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// isTerminal reports whether somebody looks at w: no file, no pipe.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// steers reports whether a character can do more to a terminal than appear on
// it: move the cursor, begin an escape sequence, turn the direction of a line,
// or hide.
func steers(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// escaped is how such a character is shown.
func escaped(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\t':
		return `\t`
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// escapedJSON is how it is written within a string of JSON.
func escapedJSON(r rune) string {
	if r > 0xffff {
		first, second := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, first, second)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// oneLine is a stored value for a cell of a table.
func oneLine(s string) string { return plain(s, "", escaped) }

// lines is a stored value with its line ends and tabs.
func lines(s string) string { return plain(s, "\n\t", escaped) }

func plain(s, keep string, escaped func(rune) string) string {
	if strings.IndexFunc(s, steers) < 0 && utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&out, `\x%02x`, s[i])
		case steers(r) && !strings.ContainsRune(keep, r):
			out.WriteString(escaped(r))
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// plainWriter shows the characters that steer a terminal, apart from line ends
// and tabs, instead of passing them on.
type plainWriter struct {
	w    io.Writer
	json bool   // what is written is JSON, and is to stay the same value
	rest []byte // the beginning of a character, whose end the next write has
}

func (p *plainWriter) Write(b []byte) (int, error) {
	data := b
	if len(p.rest) > 0 {
		data = append(p.rest, b...)
	}
	end := len(data)
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		if utf8.RuneStart(data[len(data)-i]) {
			if !utf8.FullRune(data[len(data)-i:]) {
				end -= i
			}
			break
		}
	}
	escape := escaped
	if p.json {
		escape = escapedJSON
	}
	text := plain(string(data[:end]), "\n\t", escape)
	p.rest = append([]byte(nil), data[end:]...)
	if _, err := io.WriteString(p.w, text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// cells is how many columns of a terminal a text takes.
func cells(s string) (n int) {
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

func runeCells(r rune) int {
	switch {
	case r < utf8.RuneSelf:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me), 0x1160 <= r && r <= 0x11ff: // they stand on or in what is before them
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// clipped is s within some cells, the last of which says that there is more.
func clipped(s string, limit int) string {
	if cells(s) <= limit {
		return s
	}
	taken := 0
	for i, r := range s {
		if taken += runeCells(r); taken > limit-1 {
			return s[:i] + "…"
		}
	}
	return s
}
