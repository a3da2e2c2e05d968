//go:build !unix

package spool

import "os"

// lock does nothing here: what guards the file elsewhere is unix's own.
func lock(*os.File) error { return nil }

// syncDirectory does nothing here: a directory cannot be flushed.
func syncDirectory(string) error { return nil }

func isDiskFull(error) bool { return false }
