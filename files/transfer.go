package files

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/seed-df90f812/agentstore/internal/ctxio"
	"github.com/seed-df90f812/agentstore/repo"
)

// Export writes the bytes of a session's files as a tar, each once, under their hash. What is known of the files is in
// the session's document (Sessions.Export). Errors: as of Open; w's own.
func (f *Files) Export(ctx context.Context, session repo.ID, w io.Writer) error {
	found, err := all(ctx, f.store.State(), OfSession(session), "file/")
	if err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b File) int { return strings.Compare(a.SHA256, b.SHA256) })
	archive := tar.NewWriter(ctxio.NewWriter(ctx, w))
	for _, file := range slices.CompactFunc(found, func(a, b File) bool { return a.SHA256 == b.SHA256 }) {
		r, err := f.open(ctx, file.Owner, versionKey(file.Name, file.Version))
		if err != nil {
			return err
		}
		err = archive.WriteHeader(&tar.Header{Name: file.SHA256, Size: file.Size, Mode: 0o600, Format: tar.FormatPAX})
		if err == nil {
			_, err = io.Copy(archive, r)
		}
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return archive.Close()
}

// Import reads what Export has written, after Sessions.Import has stored the session's document: from then on the
// session's files can be opened. It may be repeated. Errors: NotFoundError for the session; ImportError for a tar that
// is none, has bytes of which the session has no file, or that are not what their name says, or, when all that it has
// is kept, for a file whose bytes are missing; errors of Save.
func (f *Files) Import(ctx context.Context, session repo.ID, r io.Reader) error {
	owner, keys := OfSession(session), map[string][]string{} // of versions, by their hash
	found, err := all(ctx, f.store.State(), owner, "file/")
	if err != nil {
		return err
	}
	for _, file := range found {
		keys[file.SHA256] = append(keys[file.SHA256], versionKey(file.Name, file.Version))
	}
	archive := tar.NewReader(ctxio.NewReader(ctx, r))
	header, err := archive.Next()
	for ; err == nil; header, err = archive.Next() {
		foreign := &repo.ImportError{Field: "files", Reason: "have bytes that are not those of a file of the session"}
		if len(keys[header.Name]) == 0 {
			return foreign
		}
		err := f.keep(ctx, archive, remove(owner.scope, lockKey), same(owner, keys[header.Name], foreign))
		if err != nil {
			return err
		}
	}
	if !errors.Is(err, io.EOF) {
		return &repo.ImportError{Field: "files", Reason: "are no tar", Err: err}
	}
	for _, of := range keys { // a tar that was cut between two entries is one
		if _, err := f.open(ctx, owner, of[0]); err != nil {
			return &repo.ImportError{Field: "files", Reason: "lack the bytes of a file of the session", Err: err}
		}
	}
	return nil
}

// same returns which of the versions of a session with these keys have the bytes that were read, or an error if none.
func same(owner Owner, keys []string, none error) versions {
	return func(ctx context.Context, state repo.State, c content) (found []File, _ []repo.StateChange, err error) {
		err = none
		for _, key := range keys {
			file := File{Owner: owner}
			if gone := get(ctx, state, owner.scope, key, &file); gone != nil && !errors.Is(gone, repo.ErrNotFound) {
				return nil, nil, gone
			}
			if file.SHA256 == c.SHA256 && file.Size == c.size && checkID(file.ID) == nil && file.ID[:1] == c.SHA256[:1] {
				found, err = append(found, file), nil
			}
		}
		return found, nil, err
	}
}
