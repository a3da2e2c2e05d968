package files

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-df90f812/agentstore/repo"
)

// NewFolder returns a Blobs in a folder, which it makes. Several processes may use the folder at once, also on a
// network's disk. A file's name is the hash of its key. Errors: as of package os.
func NewFolder(path string) (Blobs, error) {
	if path == "" {
		return nil, invalidIf(true, "path", "is empty")
	}
	return folder(path), os.MkdirAll(path, 0o700)
}

type folder string

// name returns where the bytes of a key are. A folder has few of the first digits of all names.
func (f folder) name(key string) string {
	sum := hashed([]byte(key))
	return filepath.Join(string(f), sum[:2], sum)
}

// Put writes beside the place, and moves that there once it is on the disk.
func (f folder) Put(ctx context.Context, key string, r io.Reader) error {
	name := f.name(key)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	part, err := os.OpenFile(name+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(part, r)
	err = cmp.Or(err, ctx.Err(), part.Sync())
	if err = cmp.Or(err, part.Close()); err != nil {
		return errors.Join(err, os.Remove(name+".part"))
	}
	return cmp.Or(os.Rename(name+".part", name), synced(filepath.Dir(name)), synced(string(f)))
}

// synced returns once the names in a folder are on the disk.
func synced(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (f folder) Get(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	file, err := os.Open(f.name(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &repo.NotFoundError{Kind: "blob", Name: key}
	}
	if err != nil {
		return nil, err
	}
	_, err = file.Seek(offset, io.SeekStart)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (f folder) Delete(ctx context.Context, key string) error {
	for _, name := range []string{f.name(key) + ".part", f.name(key)} { // in the order of a Put that is late
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return ctx.Err()
}
