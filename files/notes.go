package files

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// A blob is noted before its bytes are written, so that a sweep finds one whose process died. A commit notes batchNotes
// of them, of which unneeded ones are swept, too.
const batchNotes = 16

// notes are blobs that were noted, and not written yet.
type notes struct {
	turn   chan struct{} // has an element while a call is at them
	blobs  []string
	change repo.StateChange // that ends the note, but for the blob
	made   time.Time
}

// note returns a new key of a blob, and the change that ends its note.
func (f *Files) note(ctx context.Context) (blob string, end repo.StateChange, err error) {
	n := &f.notes
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return "", end, ctx.Err()
	}
	if len(n.blobs) == 0 || time.Since(n.made) > f.options.Grace/4 { // with a save they are younger than the grace
		n.blobs, n.made = nil, time.Now()
		scope, blobs, changes := shard(hashed([]byte(rand.Text()))), []string{}, []repo.StateChange{}
		for range batchNotes {
			blob = f.prefix + rand.Text()
			blobs, changes = append(blobs, blob), append(changes, set(scope, notePrefix+blob, yes))
		}
		made, err := f.store.State().Change(ctx, changes)
		if err != nil {
			return "", end, err
		}
		n.blobs, n.change = blobs, remove(scope, notePrefix)
		n.change.IfVersion = &made[0].Version
	}
	last := len(n.blobs) - 1
	blob, end = n.blobs[last], n.change
	n.blobs = slices.Delete(n.blobs, last, last+1)
	end.Key += blob
	return blob, end, nil
}

const notePrefix = "put/"

// givenUp reports whether err says that a sweep has taken the note of an upload, as after a machine has slept. What was
// written since is left to the next one, and the other notes are as old.
func (f *Files) givenUp(ctx context.Context, c content, err error) bool {
	conflict, is := errors.AsType[*repo.VersionConflictError](err)
	if !is || c.end.Key == "" || conflict.Name != c.end.Key {
		return false
	}
	_, err = f.store.State().Change(ctx, []repo.StateChange{set(c.end.Scope, "trash/"+c.Blob, yes)})
	select {
	case f.notes.turn <- struct{}{}:
		f.notes.blobs = nil
		<-f.notes.turn
	case <-ctx.Done():
	}
	return err == nil
}
