package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
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

// printJSON writes one object on one line. What could steer a terminal is
// escaped, which JSON allows within strings, and it has such characters nowhere
// else.
func printJSON(w io.Writer, value any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	text := strings.TrimSuffix(line.String(), "\n")
	_, err := io.WriteString(w, plain(text, "", escapedJSON)+"\n")
	return err
}

// printReport prints a report that tells of err, which may be nil.
func printReport(invocation invocation, report any, err error) error {
	if printErr := printJSON(invocation.stdout, report); err == nil {
		return printErr
	}
	return reportedError{err}
}

// reportedError is an error that stands in the printed JSON object already.
type reportedError struct{ error }

func (e reportedError) Unwrap() error { return e.error }

// reportFailure prints the JSON object of a command that failed before it had
// one of its own: with --json, stdout always holds exactly one.
func reportFailure(invocation invocation, err error) error {
	var reported reportedError
	if err == nil || errors.As(err, &reported) {
		return err
	}
	report := struct {
		Error string `json:"error"`
	}{message(err)}
	return errors.Join(err, printJSON(invocation.stdout, report))
}
