package cli

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/schema"
)

// The exit codes, which scripts rely on. exitCodesText documents them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitBehind      = 3
	exitAhead       = 4
	exitLocked      = 5
	exitDataLoss    = 6
	exitBroken      = 7
	exitFindings    = 8
	exitInterrupted = 130
	exitPipe        = 141
)

const exitCodesText = `Exit codes:
  0    done
  1    failed
  2    wrong usage
  3    the database is behind this binary: versions are pending (validate)
  4    the database is newer than this binary, and does not allow it
  5    another process was migrating for longer than --lock-timeout
  6    refused: reverting would destroy rows (see --allow-data-loss)
  7    the audit trail, or a proof, does not verify
  8    the audit doctor has findings
  130  interrupted by a signal; the version that was running is rolled back
  141  nobody read the rest of the output, as with "| head"
`

// usageError is a mistake in the arguments.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// helpError carries the text of a help that was asked for.
type helpError struct{ text string }

func (e helpError) Error() string { return e.text }

func exitCode(ctx context.Context, err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), errors.Is(err, schema.ErrURL):
		return exitUsage
	case errors.Is(ctx.Err(), context.Canceled):
		return exitInterrupted
	case errors.Is(err, schema.ErrBehind):
		return exitBehind
	case errors.Is(err, schema.ErrAhead):
		return exitAhead
	case errors.Is(err, schema.ErrLocked):
		return exitLocked
	case errors.Is(err, schema.ErrDataLoss):
		return exitDataLoss
	case errors.Is(err, errBroken), errors.Is(err, audit.ErrProof), errors.Is(err, audit.ErrCheckpoint):
		return exitBroken
	case errors.Is(err, errFindings):
		return exitFindings
	}
	return exitFailed
}
