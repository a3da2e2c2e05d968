//go:build !unix

package spool

import "os"

// lock does nothing: flock exists only on Unix.
func lock(*os.File) error { return nil }

// syncDirectory does nothing: a directory cannot be flushed.
func syncDirectory(string) error { return nil }

func isDiskFull(error) bool { return false }
