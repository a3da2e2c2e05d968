package files

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"

	"github.com/seed-df90f812/agentstore/repo"
)

// Save reads r to its end, and saves that as the next version of a file. Savers of one name wait for each other, for
// the last transaction alone, and none has to try again. What can seek is read twice, from where it is: bytes that the
// namespace has are not kept again. A save that fails, or whose process dies, leaves no version, and Sweep removes what
// is left of its bytes. When ctx ends, a Read that
// blocks is left to itself.
//
// Errors: InvalidError; NotFoundError for the session; LimitExceededError above Options.MaxBytes; r's and the Blobs'
// own; context.DeadlineExceeded or VersionConflictError after half of Options.Grace; ErrUnknownOutcome: the version may
// be there, as [Files.Versions] tells.
func (f *Files) Save(ctx context.Context, owner Owner, file NewFile, r io.Reader) (File, error) {
	err := cmp.Or(owner.check(), file.check(), invalidIf(r == nil, "r", "is nil"))
	if err != nil {
		return File{}, err
	}
	saved := File{Owner: owner, Name: file.Name, Type: cmp.Or(file.Type, octets), Metadata: bytes.Clone(file.Metadata)}
	if saved.Metadata == nil {
		saved.Metadata = json.RawMessage("{}")
	}
	if !owner.scope.SessionID.IsZero() {
		session, err := f.store.Sessions().Get(ctx, owner.scope.SessionID)
		if err != nil {
			return File{}, err
		}
		saved.Sequence = session.MessageCount
	}
	count := repo.StateChange{Scope: owner.scope, Key: countKey(file.Name), Op: repo.StateIncrement, By: 1}
	secret := rand.Text()
	err = f.keep(ctx, r, count, func(ctx context.Context, s repo.State, c content) ([]File, []repo.StateChange, error) {
		n, err := s.Get(ctx, owner.scope, count.Key)
		if err == nil {
			err = json.Unmarshal(n.Value, &saved.Version)
		}
		saved.ID, saved.SHA256, saved.Size, saved.SavedAt = c.SHA256[:1]+secret, c.SHA256, c.size, n.UpdatedAt
		last := set(owner.scope, lastKey(file.Name), encode(saved))
		return []File{saved}, append(saved.describe(), last), err
	})
	if err != nil {
		return File{}, err
	}
	return saved, nil
}
