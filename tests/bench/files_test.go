package bench

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/files/filespg"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A new version of 1 MiB, beside a bare insert of as many bytes into a table of one column more, of which the medians count.
func BenchmarkFiles(b *testing.B) {
	store := pgtest.NewStore(b, agentstore.Options{})
	blobs, err := filespg.New(store.Pool())
	if err != nil {
		b.Fatal(err)
	}
	f, err := files.New(store, "", blobs, files.Options{})
	if err != nil {
		b.Fatal(err)
	}
	owner := files.OfSession(newSessions(b, store, 1)[0])
	pgtest.Exec(b, store.Pool(), "CREATE TABLE bare_files (id uuid PRIMARY KEY, data bytea NOT NULL)")
	const rounds, size = 60, 1 << 20
	times := map[string][]time.Duration{}
	for range rounds {
		data := make([]byte, size)
		_, _ = rand.Read(data)
		for name, save := range map[string]func() error{
			"bare": func() error {
				_, err := store.Pool().Exec(b.Context(), "INSERT INTO bare_files VALUES ($1, $2)", [16]byte(repo.NewID()), data)
				return err
			},
			"save": func() error {
				_, err := f.Save(b.Context(), owner, files.NewFile{Name: "f"}, bytes.NewReader(data))
				return err
			},
			"again": func() error {
				_, err := f.Save(b.Context(), owner, files.NewFile{Name: fmt.Sprint("g")}, bytes.NewReader(make([]byte, size)))
				return err
			},
		} {
			begun := time.Now()
			if err := save(); err != nil {
				b.Fatal(err)
			}
			times[name] = append(times[name], time.Since(begun))
		}
	}
	for name := range times {
		slices.Sort(times[name])
		b.ReportMetric(float64(times[name][rounds/2].Microseconds())/1000, name+"-ms")
		b.ReportMetric(float64(times[name][rounds/2])/float64(times["bare"][rounds/2]), name+"-ratio")
	}
}
