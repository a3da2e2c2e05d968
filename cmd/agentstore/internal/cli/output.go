package cli

import (
	"encoding/json"
	"errors"
	"io"
)

// printJSON writes one object on one line.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
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
