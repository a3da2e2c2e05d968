package files

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
)

// Export writes the bytes of a session's files as a tar, each once, under their hash. What is known of the files is in
// the session's document (Sessions.Export). Errors: as of Open; w's own.
func (f *Files) Export(ctx context.Context, session repo.ID, w io.Writer) error {
	found, err := all(ctx, f.store.State(), OfSession(session), "file/")
	if err != nil {
		return err
	}
	archive, written := tar.NewWriter(w), map[string]bool{}
	for _, file := range found {
		if written[file.SHA256] {
			continue
		}
		written[file.SHA256] = true
		r, err := f.open(ctx, file.Owner, versionKey(file.Name, file.Version))
		if err != nil {
			return err
		}
		header := tar.Header{Name: file.SHA256, Size: file.Size, Mode: 0o600, Format: tar.FormatPAX}
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		_, err = io.Copy(archive, r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return archive.Close()
}

// Import reads what Export has written, after Sessions.Import has stored the session's document: from then on the
// session's files can be opened. It may be repeated. Errors: NotFoundError for the session; ImportError for a tar that
// is none, has bytes of which the session has no file, or that are not what their name says; errors of Save.
func (f *Files) Import(ctx context.Context, session repo.ID, r io.Reader) error {
	owner := OfSession(session)
	if _, err := f.store.Sessions().Get(ctx, session); err != nil {
		return err
	}
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &repo.ImportError{Field: "files", Reason: "are no tar", Err: err}
		}
		err = f.keep(ctx, archive, remove(owner.scope, lockKey), same(owner, header.Name))
		if err != nil {
			return err
		}
	}
}

// same returns the versions of a session with the bytes that a tar has under a name.
func same(owner Owner, name string) versions {
	return func(ctx context.Context, state repo.State, c content) ([]File, []repo.StateChange, error) {
		found, err := all(ctx, state, owner, "file/")
		found = slices.DeleteFunc(found, func(file File) bool {
			return file.SHA256 != c.SHA256 || file.Size != c.size || checkID(file.ID) != nil || file.ID[:1] != c.SHA256[:1]
		})
		if err == nil && (len(found) == 0 || name != c.SHA256) {
			err = &repo.ImportError{
				Field: fmt.Sprintf("files[%q]", name), Reason: "are not the bytes of a file of the session",
			}
		}
		return found, nil, err
	}
}
