package pgtest

import (
	"os"
	"path/filepath"
	"strings"
)

// unpacked is the root that binaries of image/binaries.sh stand in.
func unpacked(binaries string) string {
	root, _, found := strings.Cut(binaries, "/usr/lib/postgresql/")
	if !found {
		return "/"
	}
	return root + "/"
}

// environment is what programs of PostgreSQL are run with: the locales that fit
// their C library.
func environment(binaries string) []string {
	list := os.Environ()
	if root := unpacked(binaries); root != "/" {
		list = append(list, "LOCPATH="+filepath.Join(root, "usr/lib/locale"))
	}
	return list
}
