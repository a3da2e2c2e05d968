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
  141  the reader of the output closed it, as with "| head"
`

// usageError is a mistake in the arguments.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func exitCode(ctx context.Context, err error) int {
	var usage usageError
	var unknown *schema.UnknownVersionError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), errors.Is(err, errURL), errors.Is(err, schema.ErrURL), errors.Is(err, schema.ErrSchemaName):
		return exitUsage
	case errors.As(err, &unknown) && !unknown.Applied: // of --to
		return exitUsage
	case errors.Is(ctx.Err(), context.Canceled):
		return exitInterrupted
	}
	for _, of := range []struct {
		err  error
		code int
	}{
		{schema.ErrBehind, exitBehind},
		{schema.ErrAhead, exitAhead},
		{schema.ErrLocked, exitLocked},
		{schema.ErrDataLoss, exitDataLoss},
		{errBroken, exitBroken},
		{audit.ErrProof, exitBroken},
		{audit.ErrCheckpoint, exitBroken},
		{errFindings, exitFindings},
	} {
		if errors.Is(err, of.err) {
			return of.code
		}
	}
	return exitFailed
}
