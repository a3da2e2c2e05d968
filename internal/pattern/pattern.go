// Package pattern says what it costs to match a regular expression, before it is matched.
package pattern

import (
	"errors"
	"regexp/syntax"

	"github.com/seed-df90f812/agentstore/internal/limits"
)

// ErrLarge is the error of a pattern whose program is larger than limits.MaxPatternSize.
var ErrLarge = errors.New("pattern too large")

// Steps returns how many steps it takes at most to match a text with so many bytes: an instruction
// of the pattern's program for each byte. A counted repetition has its instructions as often as
// it counts.
func Steps(pattern string, bytes int) (int, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	switch {
	case err != nil:
		return 0, err
	case len(program.Inst) > limits.MaxPatternSize:
		return 0, ErrLarge
	}
	return len(program.Inst) * bytes, nil
}
