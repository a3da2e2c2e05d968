//go:build !race

package files

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Uploads at once take memory by their number, and not by their size.
func TestAmountOfUploads(t *testing.T) {
	url := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, url, agentstore.Options{})
	for _, c := range []struct {
		uploads int
		most    uint64
	}{{1, 48 << 20}, {16, 200 << 20}} {
		upload := task{URL: url, Session: pgtest.NewSession(t, store), Uploads: c.uploads, Bytes: pgtest.Choose(100, 8) << 20}
		command := pgtest.Again(t.Context(), taskVariable, upload)
		command.Stderr = os.Stderr
		output, err := command.Output()
		var most memory
		if err == nil {
			err = json.Unmarshal(output, &most)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d uploads of %d MiB: heap %d KiB, process %d KiB at most", c.uploads, upload.Bytes>>20, most.Heap>>10, most.Process>>10)
		if most.Heap == 0 || most.Heap > c.most || most.Process > c.most {
			t.Errorf("more than %d KiB", c.most>>10)
		}
		stored := pgtest.Value[int64](t, store.Pool(), "SELECT sum(octet_length(data))::bigint FROM file_chunks")
		if stored != int64(c.uploads*upload.Bytes) {
			t.Errorf("%d bytes are stored", stored)
		}
		pgtest.Exec(t, store.Pool(), "TRUNCATE file_chunks")
	}
}
