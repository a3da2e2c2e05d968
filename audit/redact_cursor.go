package audit

import "strings"

// effort counts the bytes that a redaction looks at. A function of a value or a name counts
// it once: it looks at each byte a fixed number of times.
type effort struct{ looked int }

func (e *effort) see(text string) { e.looked += len(text) }

// A role is one of the searches for the next byte of a set. Each has a cursor of its own.
type role int

const (
	valueEnd      role = iota // of a value without quotes
	argumentEnd               // of a word on a command line
	webhookEnd                // of a path that is a secret
	schemeEnd                 // of the credential after Bearer and Basic
	headerEnd                 // of a header's value
	headerWordEnd             // of the first word there
	credentialEnd             // of the credential after that
	lineEnd
	lineRest // what is not a closing mark
	digitAt
	keyEnd // of a run of letters, digits, _ and -
	payloadEnd
	signatureEnd
	afterKey
	dottedKeyEnd // of a run with further characters
	assignedKeyEnd
	base64End
	cookieEnd
	listedEnd
	roles
)

// stops has a bit for each role whose search ends at a byte.
var stops = func() (table [256]uint32) {
	for role, ends := range map[role]string{ //nolint:gosec // names of ends, no credentials
		valueEnd: " \t\r\n,;&\"'`<>)}]|\\", argumentEnd: " \t\r\n\"'\\", webhookEnd: " \t\r\n\"'`<>\\)?",
		schemeEnd: " \t\r\n\"'`<>\\,;)(",
		headerEnd: "\r\n\"'\\`", headerWordEnd: " \r\n\"'\\`", credentialEnd: " ,\r\n\"'\\`",
		lineEnd: "\r\n", digitAt: digitsOnly,
	} {
		for i := range len(ends) {
			table[ends[i]] |= 1 << role
		}
	}
	for c := range table {
		for role, more := range map[role]string{
			keyEnd: "", payloadEnd: "", signatureEnd: "", afterKey: "", dottedKeyEnd: ".", assignedKeyEnd: "=", base64End: "+/=",
			cookieEnd: "%+/=", listedEnd: "+/=, ",
		} {
			if run := runOf(string([]byte{byte(c)}), more, 1); run == 0 {
				table[c] |= 1 << role
			}
		}
		if !strings.Contains(" \t\r,;\"'}", string([]byte{byte(c)})) {
			table[c] |= 1 << lineRest
		}
	}
	return table
}()

// A cursor knows the next stop of all places from one on, up to that stop.
type cursor struct {
	from int
	// behind is one more than the stop. 0: nothing is known.
	behind int
	// asked is how many values ended there.
	asked int
}

// next returns the first stop at a place or behind it, or the text's length. A cursor only
// goes on, and looks at no byte twice, except between a place and one before it that it is
// asked for later: these are some hundred bytes apart at most.
func (s *scan) next(r role, from int) int {
	c := &s.cursors[r]
	if c.from <= from && from < c.behind {
		return c.behind - 1
	}
	at, known := from, len(s.text)
	if from < c.from {
		known = c.from
	}
	for at < known && stops[s.text[at]]&(1<<r) == 0 {
		at++
	}
	s.looked += at - from + 1
	switch {
	case known == len(s.text):
		*c = cursor{from: from, behind: at + 1}
	case at == known:
		return c.behind - 1
	}
	return at
}

// near returns a part of the text that is short, or skipped then.
func (s *scan) near(from, to int) string {
	part := s.text[from:min(to, len(s.text))]
	s.see(part)
	return part
}

// find returns where a text begins, or -1. The caller skips what is before it, or asks once.
func (s *scan) find(from int, text string) int {
	at := strings.Index(s.text[from:], text)
	if at < 0 {
		s.looked += len(s.text) - from
		return -1
	}
	s.looked += at + len(text)
	return from + at
}
