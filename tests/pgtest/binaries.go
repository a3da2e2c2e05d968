package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// findBinaries returns the directory of PostgreSQL's programs: the one that the
// environment names, or the newest on the machine.
func findBinaries() (string, error) {
	if named := os.Getenv(binariesEnv); named != "" {
		if _, err := os.Stat(filepath.Join(named, "postgres")); err != nil {
			return "", fmt.Errorf("%s: %w", binariesEnv, err)
		}
		return named, nil
	}
	found, err := filepath.Glob(filepath.Join(debianDir, "*/bin/postgres"))
	if err != nil {
		return "", err
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	onPath, err := exec.LookPath("postgres")
	if err != nil {
		return "", errors.New("no postgres binary in " + debianDir + "/*/bin or PATH")
	}
	onPath, err = filepath.EvalSymlinks(onPath)
	return filepath.Dir(onPath), err
}

// debianDir is where Debian's packages put the binaries. Tests change it.
var debianDir = "/usr/lib/postgresql"

// version returns 15 for /usr/lib/postgresql/15/bin/postgres.
func version(path string) int {
	number, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return number
}

// unpacked returns the root below which tests/image/binaries.sh has unpacked binaries,
// or / for others.
func unpacked(binaries string) string {
	root, _, found := strings.Cut(binaries, "/usr/lib/postgresql/")
	if !found {
		return "/"
	}
	return root + "/"
}

// environment returns the environment for PostgreSQL's programs. It names the locales
// of their C library.
func environment(binaries string) []string {
	list := os.Environ()
	if root := unpacked(binaries); root != "/" {
		list = append(list, "LOCPATH="+filepath.Join(root, "usr/lib/locale"))
	}
	return list
}
