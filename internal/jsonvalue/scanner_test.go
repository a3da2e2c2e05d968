package jsonvalue_test

import (
	"fmt"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
)

func TestScanner(t *testing.T) {
	s := jsonvalue.NewScanner([]byte(` { "näme" : [ "\u00e9\ud83d\uDE00\/\n" ,"" , "}\"\\" ] , "half":"\ud83d\\","last" : [ ]  } ` + "\n"))
	got := string(s.Peek())
	s.Pos++
	for first := true; s.Next('}', first); first = false {
		s.Peek()
		got += s.Lenient()
		if s.Colon(); s.Peek() != '[' {
			got += fmt.Sprintf("=%q;", s.Lenient())
			continue
		}
		s.Pos++
		for i := 0; s.Next(']', i == 0); i++ {
			s.Peek()
			at := s.Pos
			text := s.Lenient()
			s.Pos = at
			if again := s.Lenient(); again != text {
				t.Errorf("%q is read again as %q", text, again)
			}
			got += fmt.Sprintf("=%q", text)
		}
		got += ";"
	}
	if want := `{näme="é😀/\n"=""="}\"\\";half="�\\";last;`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if c := s.Peek(); c != 0 {
		t.Errorf("%q is after the end", c)
	}
}
