package jsonvalue_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
)

// scanners returns scanners of a text in memory, and of readers that return it in
// pieces of each size, which must not matter.
func scanners(text string) map[string]jsonvalue.Scanner {
	all := map[string]jsonvalue.Scanner{
		"memory":      jsonvalue.NewScanner([]byte(text)),
		"end at once": jsonvalue.NewReaderScanner(iotest.DataErrReader(strings.NewReader(text)), 1024),
	}
	for size := range 20 {
		all[fmt.Sprint("pieces of ", size+1)] = jsonvalue.NewReaderScanner(strings.NewReader(text), size+1)
	}
	return all
}

func TestScanner(t *testing.T) {
	const text = ` { "näme" : [ -12 , "\u00e9\ud83d\uDE00\/\n" ,"" ], "o":{ "}\"\\" : [1.0] } , "last" : { "a" : 1 }  } ` + "\n"
	for name, s := range scanners(text) {
		got := ""
		s.Expect('{', "is not an object")
		for first := true; s.Next('}', first); first = false {
			got += string(s.Text(10))
			s.Colon()
			if s.Peek() != '[' {
				got += "=" + string(s.Object(20, strings.HasSuffix(got, "last"))) + ";"
				continue
			}
			s.Pos++
			for i := 0; s.Next(']', i == 0); i++ {
				if i == 0 {
					got += fmt.Sprint("=", s.Integer())
				} else {
					got += fmt.Sprintf(",%q", s.Text(20))
				}
			}
			got += ";"
		}
		if s.End(); s.Fault != nil || !s.Spaced {
			t.Errorf("%s: fault %v, spaced %v", name, s.Fault, s.Spaced)
		}
		if want := `näme=-12,"é😀/\n","";o={ "}\"\\" : [1.0] };last={ "a" : 1 }  ;`; got != want {
			t.Errorf("%s: got  %s\nwant %s", name, got, want)
		}
	}
}

func TestScannerFaults(t *testing.T) {
	text := func(s *jsonvalue.Scanner) { s.Text(3) }
	object := func(s *jsonvalue.Scanner) { s.Object(9, false) }
	integer := func(s *jsonvalue.Scanner) { s.Integer() }
	for _, test := range []struct {
		text, want string
		read       func(*jsonvalue.Scanner)
	}{
		{`1`, "is not a string", text},
		{`"abcd"`, "has more than 3 bytes", text},
		{`"ab\u00e9"`, "has more than 3 bytes", text},
		{"\"a\x01\"", "holds a control character that is not escaped", text},
		{`"\x"`, jsonvalue.Invalid, text},
		{`"\u12g4"`, jsonvalue.Invalid, text},
		{`"\ud83d"`, "holds the escape of half a surrogate pair", text},
		{`"\ud83d\u0041"`, "holds the escape of half a surrogate pair", text},
		{`"ab`, "is cut off", text},
		{`"\u00`, "is cut off", text},
		{`[]`, "is not an object", object},
		{`{"a":"bc"}`, "has more than 9 bytes", object},
		{`{"a":[}`, "is cut off", object},
		{`"1"`, "is not a number", integer},
		{`1.0 `, "is not a whole number of 64 bits", integer},
		{`-0 `, "is not a whole number of 64 bits", integer},
		{`9223372036854775808 `, "is not a whole number of 64 bits", integer},
		{` `, "is cut off", func(s *jsonvalue.Scanner) { s.Colon() }},
		{`;`, jsonvalue.Invalid, func(s *jsonvalue.Scanner) { s.Next(']', false) }},
		{` x`, "is followed by something else", (*jsonvalue.Scanner).End},
	} {
		for name, s := range scanners(test.text) {
			test.read(&s)
			if s.Fault == nil || s.Fault.Error() != test.want {
				t.Errorf("%s, %s: the fault is %v, want %q", test.text, name, s.Fault, test.want)
			}
			fault := s.Fault
			s.End()
			if s.Next('}', true) || s.Peek() != 0 || s.Text(9) != nil || s.Object(9, true) != nil || s.Fault != fault {
				t.Errorf("%s, %s: it went on behind the fault", test.text, name)
			}
		}
	}
	broken := errors.New("broken")
	for err, want := range map[error]error{broken: broken, fmt.Errorf("disguised: %w", io.EOF): io.ErrUnexpectedEOF} {
		s := jsonvalue.NewReaderScanner(iotest.ErrReader(err), 10)
		if s.End(); s.Fault == nil || !errors.Is(s.Fault.Err, want) {
			t.Errorf("%v: the fault is %v", err, s.Fault)
		}
	}
}

// Text in memory stays valid; Lenient returns the same as encoding/json.
func TestScannerInMemory(t *testing.T) {
	s := jsonvalue.NewScanner([]byte(`"a\n" "b\n" "c" "\ud83d\\"`))
	one, two, three := s.Text(9), s.Text(9), s.Text(9)
	if string(one) != "a\n" || string(two) != "b\n" || string(three) != "c" {
		t.Errorf("got %q, %q, %q", one, two, three)
	}
	s.Peek()
	at := s.Pos
	for range 2 {
		s.Pos = at
		if got := s.Lenient(); got != "\uFFFD\\" {
			t.Errorf("got %q", got)
		}
	}
}
