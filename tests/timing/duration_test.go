package timing

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// named are the durations of other packages.
var named = map[string]float64{
	"time.Nanosecond":   float64(time.Nanosecond),
	"time.Microsecond":  float64(time.Microsecond),
	"time.Millisecond":  float64(time.Millisecond),
	"time.Second":       float64(time.Second),
	"time.Minute":       float64(time.Minute),
	"time.Hour":         float64(time.Hour),
	"repo.MinLeaseTTL":  float64(repo.MinLeaseTTL),
	"repo.MaxLeaseTTL":  float64(repo.MaxLeaseTTL),
	"repo.MinStreamTTL": float64(repo.MinStreamTTL),
	"repo.MaxStreamTTL": float64(repo.MaxStreamTTL),
}

// duration computes an expression, if it has constants only. Of pgtest.Choose it takes what
// is usual, and of a random time the longest.
func (l *looker) duration(expression ast.Expr) (time.Duration, bool) {
	value, known := l.number(expression)
	return time.Duration(value), known
}

func (l *looker) number(expression ast.Expr) (float64, bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		value, err := strconv.ParseFloat(e.Value, 64)
		return value, err == nil
	case *ast.ParenExpr:
		return l.number(e.X)
	case *ast.Ident:
		if value, ok := l.constants[e.Name]; ok {
			return l.number(value)
		}
	case *ast.SelectorExpr:
		value, ok := named[nameOf(e)]
		return value, ok
	case *ast.UnaryExpr:
		value, ok := l.number(e.X)
		if e.Op == token.SUB {
			value = -value
		}
		return value, ok
	case *ast.BinaryExpr:
		return l.calculated(e)
	case *ast.CallExpr:
		switch name := nameOf(e.Fun); {
		case name == "pgtest.Choose" && len(e.Args) == 2:
			return l.number(e.Args[1])
		case (name == "time.Duration" || name == "rand.N") && len(e.Args) == 1:
			return l.number(e.Args[0])
		}
	}
	return 0, false
}

func (l *looker) calculated(e *ast.BinaryExpr) (float64, bool) {
	x, known := l.number(e.X)
	y, also := l.number(e.Y)
	if !known || !also {
		return 0, false
	}
	switch e.Op {
	case token.MUL:
		return x * y, true
	case token.ADD:
		return x + y, true
	case token.SUB:
		return x - y, true
	case token.QUO:
		return x / y, y != 0
	}
	return 0, false
}

var limit = regexp.MustCompile(`\b((?:statement|lock|idle_in_transaction_session|transaction)_timeout)\b["'` + "`" + `]?\s*(?:=|TO|,|:)\s*["'` + "`" + `]?(\d+)\s*(us|ms|s|min|h|d)?\b`)

// limitsOf returns the limits of time in a statement or a URL that are short.
func limitsOf(text string) (short []string) {
	units := map[string]time.Duration{"": time.Millisecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "min": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	for _, match := range limit.FindAllStringSubmatch(text, -1) {
		count, err := strconv.Atoi(match[2])
		if d := time.Duration(count) * units[match[3]]; err == nil && d > 0 && d < enough {
			short = append(short, match[1])
		}
	}
	return short
}
