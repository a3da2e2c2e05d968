package rules

import "github.com/seed-df90f812/agentstore/repo"

// Fence is what a session or plan knows of its lease.
type Fence struct {
	Key repo.LeaseKey
	// Latest is the latest fence.
	Latest int64
	// Only: a write needs a fence.
	Only bool
}

// Check returns the error of a write with a fence, or nil. Zero: it has none. A fence that
// is larger than Latest may have been given before the session or plan was made. So before
// it is refused, a store looks at the lease: if that has a larger one than Latest, it
// becomes the latest. Any other is of no lease of this key. Errors: FencedError.
func (f Fence) Check(fence int64) error {
	if fence == f.Latest && fence != 0 || fence == 0 && !f.Only {
		return nil
	}
	return &repo.FencedError{Key: f.Key, Fence: fence, Latest: f.Latest}
}

// checkFence checks the fence of a write.
func checkFence(fence int64) error { return invalidIf(fence < 0, "fence", "is negative") }
