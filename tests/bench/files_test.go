package bench

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
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
				_, err := f.Save(b.Context(), owner, files.NewFile{Name: "g"}, bytes.NewReader(make([]byte, size)))
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
		b.ReportMetric(float64(times[name][rounds/10])/float64(times["bare"][rounds/10]), name+"-tenth-ratio")
	}
}

// A session with 16 messages, each with a picture of 8 MB, is read in the time and the bytes of its references.
func BenchmarkPictures(b *testing.B) {
	store := pgtest.NewStore(b, agentstore.Options{})
	blobs, err := filespg.New(store.Pool())
	if err != nil {
		b.Fatal(err)
	}
	f, err := files.New(store, "", blobs, files.Options{})
	if err != nil {
		b.Fatal(err)
	}
	session := newSessions(b, store, 1)[0]
	const pictures = 16
	for n := range pictures {
		file, err := f.Save(b.Context(), files.OfSession(session), files.NewFile{Name: fmt.Sprint(n), Type: "image/png"}, io.LimitReader(rand.Reader, 8_000_000))
		if err != nil {
			b.Fatal(err)
		}
		message := repo.NewMessage{Role: repo.RoleUser, Content: "What is this?", Payload: files.Payload(file.Reference())}
		if _, err := store.Sessions().Append(b.Context(), session, message); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		messages, err := store.Sessions().LastMessages(b.Context(), session, pictures)
		if err != nil || len(messages) != pictures {
			b.Fatal(len(messages), err)
		}
		for _, m := range messages {
			if size := len(m.Content) + len(m.Payload) + len(m.Metadata); size > 1<<10 {
				b.Fatalf("%d bytes", size)
			}
		}
	}
}
