//go:build unix

package audit

import (
	"errors"
	"os"
	"syscall"
)

// lockFile keeps other processes from the file, for as long as it is open.
func lockFile(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.New("another process uses the file")
	}
	return err
}
