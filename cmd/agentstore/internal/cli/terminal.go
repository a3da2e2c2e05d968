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

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// steers reports whether a character does more to a terminal than appear on it:
// move the cursor, begin an escape sequence, change the direction of a line, or
// hide.
func steers(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// escaped returns such a character as it is shown.
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

// escapedJSON returns such a character as it is written within a JSON string.
func escapedJSON(r rune) (text string) {
	for _, unit := range utf16.AppendRune(nil, r) {
		text += fmt.Sprintf(`\u%04x`, unit)
	}
	return text
}

// oneLine prepares a stored value for a cell of a table.
func oneLine(s string) string { return plain(s, "", escaped) }

// lines prepares a stored value, and keeps its line ends and tabs.
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

// plainWriter escapes the characters that steer a terminal, except line ends and
// tabs.
type plainWriter struct {
	w    io.Writer
	json bool   // the text is JSON, whose value must not change
	rest []byte // the beginning of a character that the next write completes
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

// cells returns the number of columns that a text takes on a terminal.
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
	case unicode.In(r, unicode.Mn, unicode.Me), 0x1160 <= r && r <= 0x11ff: // combined with what is before them
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// clipped cuts s to a number of cells. If it does, the last one shows that there is
// more.
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
