package live

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"
)

// A client gets the data of an event, with line feeds for all line breaks, and no field that
// the data or the name made up.
func FuzzEvent(f *testing.F) {
	for _, data := range []string{"", "a", "\n", "\r", "\r\n", "\n\r", "a\nb", "a\n", "id: 7\n\ndata: x", " a", "\x00", "\xff", ":", "a\r\r\nb"} {
		f.Add("", data)
		f.Add("name", data)
		f.Add(data, "data")
	}
	f.Fuzz(func(t *testing.T, name, data string) {
		var written bytes.Buffer
		event := Event{Name: name, Data: []byte(data)}
		err := checkEvent(event)
		if err == nil {
			w := bufio.NewWriter(&written)
			err = errors.Join(writeEvent(w, "12", event), w.Flush())
		}
		sent := written.Bytes()
		if bad := strings.ContainsAny(name, "\r\n\x00"); bad || err != nil {
			if !bad || !errors.Is(err, errName) || len(sent) > 0 {
				t.Fatalf("name %q: %q, %v", name, sent, err)
			}
			return
		}
		if !bytes.HasSuffix(sent, []byte("\n\n")) || bytes.ContainsRune(sent, '\r') && !strings.Contains(name, "\r") {
			t.Fatalf("%q", sent)
		}
		var ids, names, got []string
		for lines := bufio.NewScanner(bytes.NewReader(sent)); lines.Scan(); {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				ids = append(ids, value)
			case "event":
				names = append(names, value)
			case "data":
				got = append(got, value)
			case "":
			default:
				t.Fatalf("field %q", field)
			}
		}
		if want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data); strings.Join(got, "\n") != want || len(ids) != 1 || ids[0] != "12" ||
			strings.Join(names, "\n") != name {
			t.Errorf("sent %q: data %q, want %q, ids %q, names %q", sent, got, want, ids, names)
		}
	})
}
