//go:build !unix

package audit

import "os"

// lockFile does nothing here: what guards the file elsewhere is unix's own.
func lockFile(*os.File) error { return nil }
