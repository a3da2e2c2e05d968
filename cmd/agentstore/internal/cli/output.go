package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"
)

// output is stdout. The first write that fails ends the command.
type output struct {
	mu     sync.Mutex
	w      io.Writer
	failed func()
	err    error
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	if err != nil {
		o.err = err
		o.failed()
	}
	return n, err
}

func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// printJSON writes one object on one line. It escapes characters that steer a
// terminal: JSON allows that in strings, and has no such characters elsewhere.
func printJSON(w io.Writer, value any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(w, plain(line.String(), "\n", escapedJSON))
	return err
}

// object is a JSON object whose members keep their order. Times are in UTC with
// microseconds, as they are stored.
type object []member

type member struct {
	name  string
	value any
}

// given is the value of a member that is omitted if it is zero.
type given struct{ value any }

func (o object) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for _, m := range o {
		if given, ok := m.value.(given); ok {
			if m.value = given.value; m.value == nil || reflect.ValueOf(m.value).IsZero() {
				continue
			}
		}
		if at, ok := m.value.(time.Time); ok {
			m.value = at.UTC().Format("2006-01-02T15:04:05.000000Z")
		}
		fmt.Fprintf(&out, ",%q:", m.name)
		if err := encoder.Encode(m.value); err != nil {
			return nil, err
		}
	}
	return append(append([]byte{'{'}, bytes.TrimPrefix(out.Bytes(), []byte{','})...), '}'), nil
}

// objects describes each value. No values give an empty array.
func objects[T any](values []T, describe func(T) object) []object {
	all := make([]object, len(values))
	for i, value := range values {
		all[i] = describe(value)
	}
	return all
}

// printOne prints one value: as an object with --json, otherwise as fields.
func printOne(invocation invocation, line any, fields []field) error {
	if invocation.json {
		return printJSON(invocation.stdout, line)
	}
	return printFields(invocation, fields...)
}

// printReport prints a report about err, which may be nil.
func printReport(invocation invocation, report any, err error) error {
	if printErr := printJSON(invocation.stdout, report); err == nil {
		return printErr
	}
	return reportedError{err}
}

// reportedError is an error that the printed JSON object already contains.
type reportedError struct{ error }

func (e reportedError) Unwrap() error { return e.error }

// reportFailure prints the JSON object of a command that failed before it printed
// one: with --json, stdout always contains exactly one.
func reportFailure(invocation invocation, err error) error {
	var reported reportedError
	if err == nil || errors.As(err, &reported) {
		return err
	}
	return errors.Join(err, printJSON(invocation.stdout, object{{"error", message(err)}}))
}
