package files_test

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/files/filestest"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	filestest.Run(t, func(t *testing.T) filestest.Store {
		clock := memory.NewClock(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC))
		store := memory.NewWith(memory.Options{Clock: clock})
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return filestest.Store{Store: store, Blobs: files.NewMemory(), Elapse: clock.Advance}
	})
}

func TestMemory(t *testing.T) {
	t.Parallel()
	filestest.RunBlobs(t, func(*testing.T) files.Blobs { return files.NewMemory() })
}

func TestFolder(t *testing.T) {
	t.Parallel()
	filestest.RunBlobs(t, func(t *testing.T) files.Blobs {
		blobs, err := files.NewFolder(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return blobs
	})
}
