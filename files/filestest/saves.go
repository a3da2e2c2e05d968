package filestest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/repo"
)

// Versions are numbered from 1, and each has what was saved.
func testVersions(w *world) {
	owner := files.OfSession(w.session())
	var saved []files.File
	for n := range 12 {
		file, err := w.Save(w.Context(), owner, files.NewFile{Name: "a/b~.txt", Metadata: object(`{"n":1}`)}, reader(fmt.Sprint("text ", n)))
		w.check(err)
		if file.Version != int64(n)+1 || file.Size != int64(len(fmt.Sprint("text ", n))) || file.Type != "application/octet-stream" {
			w.Errorf("%+v", file)
		}
		saved = append(saved, file)
	}
	for n, file := range saved {
		w.has(owner, file, fmt.Sprint("text ", n))
	}
	newest, err := w.Open(w.Context(), owner, "a/b~.txt", 0)
	w.check(err)
	if newest.Version != 12 || read(newest) != "text 11" || string(newest.Metadata) != `{"n":1}` {
		w.Errorf("%+v", newest.File)
	}
	var listed []files.File
	for page := (repo.Page{Limit: 5}); ; {
		found, err := w.Versions(w.Context(), owner, "a/b~.txt", page)
		w.check(err)
		listed = append(listed, found.Items...)
		if page.After = found.Next; page.After == "" {
			break
		}
	}
	if !slices.EqualFunc(listed, saved, func(a, b files.File) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		w.Errorf("%+v, want %+v", listed, saved)
	}
	w.hasNot(owner, files.File{Name: "a/b~.txt", Version: 13, ID: "0" + saved[0].ID[1:]})
}

// The same bytes are kept once, and not sent again if they can be read twice.
func testSame(w *world) {
	session := files.OfSession(w.session())
	var all []files.File
	for n := range 3 {
		all = append(all, w.save(session, fmt.Sprint(n), "the same"), w.save(files.OfNamespace(), "n", "the same"))
	}
	if w.blobs.puts != 1 {
		w.Errorf("they were put %d times", w.blobs.puts)
	}
	streamed, err := w.Save(w.Context(), session, files.NewFile{Name: "0"}, reader("the same"))
	w.check(err)
	w.has(session, streamed, "the same")
	w.has(session, all[0], "the same")
	w.clean(1)
	w.has(session, streamed, "the same")
	skipped := strings.NewReader("not the same")
	_, err = io.CopyN(io.Discard, skipped, 4)
	w.check(err)
	file, err := w.Save(w.Context(), session, files.NewFile{Name: "part"}, skipped)
	w.check(err)
	w.has(session, file, "the same")
}

// A reader seeks, and reads from there.
func testSeek(w *world) {
	owner, data := files.OfUser("jane"), random(2<<20+100)
	file, err := w.Save(w.Context(), owner, files.NewFile{Name: "large"}, onlyReader{strings.NewReader(string(data))})
	w.check(err)
	w.has(owner, file, string(data))
	r, err := w.Open(w.Context(), owner, "large", 1)
	w.check(err)
	for _, seek := range []struct {
		offset int64
		whence int
		want   int64
	}{
		{5, io.SeekStart, 5},
		{1 << 20, io.SeekStart, 1 << 20},
		{-10, io.SeekEnd, file.Size - 10},
		{-(1 << 20), io.SeekCurrent, file.Size - 1<<20 - 6},
		{0, io.SeekEnd, file.Size},
		{10, io.SeekEnd, file.Size + 10},
		{0, io.SeekCurrent, file.Size + 10},
	} {
		at, err := r.Seek(seek.offset, seek.whence)
		if err != nil || at != seek.want {
			w.Fatalf("%+v: %d, %v", seek, at, err)
		}
		got := make([]byte, 4)
		n, err := io.ReadFull(r, got)
		if left := min(4, max(0, file.Size-at)); int64(n) != left || string(got[:n]) != string(data[min(at, file.Size):][:left]) || left == 4 && err != nil {
			w.Errorf("%+v: %d, %v", seek, n, err)
		}
	}
	if _, err := r.Seek(-1, io.SeekStart); !errors.Is(err, repo.ErrInvalid) {
		w.Error(err)
	}
	w.check(r.Close())
}

// A list has each file once, by its newest version.
func testNames(w *world) {
	owner := files.OfUser("jane")
	var want []string
	for _, name := range []string{"a", "a!", "a/b", "ab", "é", "~"} {
		w.save(owner, name, "1")
		w.save(owner, name, "2")
		want = append(want, name+" 2")
	}
	var got []string
	for page := (repo.Page{Limit: 2}); ; {
		found, err := w.List(w.Context(), owner, page)
		w.check(err)
		for _, file := range found.Items {
			got = append(got, fmt.Sprint(file.Name, " ", file.Version))
		}
		if page.After = found.Next; page.After == "" {
			break
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.Errorf("%v, want %v", got, want)
	}
	if found, err := w.List(w.Context(), files.OfUser("joe"), repo.Page{}); err != nil || len(found.Items) != 0 {
		w.Error(found, err)
	}
}

func testInvalid(w *world) {
	good := files.OfUser("jane")
	long := strings.Repeat("x", repo.MaxNameBytes+1)
	for _, c := range []struct {
		owner files.Owner
		file  files.NewFile
	}{
		{files.Owner{}, files.NewFile{Name: "a"}},
		{files.OfUser(""), files.NewFile{Name: "a"}},
		{files.OfUser(long), files.NewFile{Name: "a"}},
		{files.OfSession(repo.ID{}), files.NewFile{Name: "a"}},
		{good, files.NewFile{}},
		{good, files.NewFile{Name: long}},
		{good, files.NewFile{Name: "\xff"}},
		{good, files.NewFile{Name: "a\x00"}},
		{good, files.NewFile{Name: "a", Type: "none of\r\nthese"}},
		{good, files.NewFile{Name: "a", Type: "image/png;\r\n x=y"}},
		{good, files.NewFile{Name: "a", Type: "text/plain; x=\"\x00\""}},
		{good, files.NewFile{Name: "a", Type: "text/plain; x=\"é\""}},
		{good, files.NewFile{Name: "a", Metadata: object(`{"a":"\u0000"}`)}},
		{good, files.NewFile{Name: "a", Metadata: object(`{"a":1,"a":2}`)}},
		{good, files.NewFile{Name: "a", Metadata: object("{\"a\":\"\xff\"}")}},
		{good, files.NewFile{Name: "a", Metadata: object(strings.Repeat(`{"a":`, 512) + "1" + strings.Repeat("}", 512))}},
		{good, files.NewFile{Name: "a", Metadata: object(`[]`)}},
		{good, files.NewFile{Name: "a", Metadata: object(``)}},
		{good, files.NewFile{Name: "a", Metadata: object(` `)}},
		{good, files.NewFile{Name: "a", Metadata: object(`{"a":"` + strings.Repeat("x", files.MaxMetadata) + `"}`)}},
	} {
		if _, err := w.Save(w.Context(), c.owner, c.file, strings.NewReader("x")); !errors.Is(err, repo.ErrInvalid) {
			w.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := w.Save(w.Context(), good, files.NewFile{Name: "a"}, nil); !errors.Is(err, repo.ErrInvalid) {
		w.Error(err)
	}
	if _, err := w.Save(w.Context(), files.OfSession(repo.NewID()), files.NewFile{Name: "a"}, strings.NewReader("x")); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
	for _, id := range []string{"", "0", "../../../../../../../../", "0/" + strings.Repeat("A", 26), "g" + strings.Repeat("A", 26)} {
		if _, err := w.OpenID(w.Context(), good, id); !errors.Is(err, repo.ErrInvalid) {
			w.Errorf("%q: %v", id, err)
		}
	}
	if _, err := w.Versions(w.Context(), files.Owner{}, "a", repo.Page{}); !errors.Is(err, repo.ErrInvalid) {
		w.Error(err)
	}
	if _, err := w.Delete(w.Context(), good, ""); !errors.Is(err, repo.ErrInvalid) {
		w.Error(err)
	}
	w.hasBlobs(0)
	deepest := object(strings.Repeat(`{"a":`, 511) + "1" + strings.Repeat("}", 511))
	_, err := w.Save(w.Context(), good, files.NewFile{Name: "a", Metadata: deepest}, strings.NewReader("x"))
	w.check(err)
}

// What is too large is refused, whether it can be read twice or not, and leaves no version.
func testTooLarge(w *world) {
	small := w.files(namespace, files.Options{MaxBytes: 10})
	for _, r := range []io.Reader{strings.NewReader("more than ten"), reader("more than ten")} {
		if _, err := small.Save(w.Context(), files.OfNamespace(), files.NewFile{Name: "a"}, r); !errors.Is(err, repo.ErrLimit) {
			w.Error(err)
		}
	}
	file, err := small.Save(w.Context(), files.OfNamespace(), files.NewFile{Name: "a"}, reader("just ten.."))
	if err != nil || file.Version != 1 {
		w.Error(file, err)
	}
	w.clean(1)
}

// The files of one owner are not those of another one.
func testOwners(w *world) {
	a, b := files.OfSession(w.session()), files.OfSession(w.session())
	owners := []files.Owner{a, b, files.OfUser("a"), files.OfUser("namespace"), files.OfNamespace()}
	var saved []files.File
	for n, owner := range owners {
		saved = append(saved, w.save(owner, "f", fmt.Sprint(n)))
	}
	for n, owner := range owners {
		w.has(owner, saved[n], fmt.Sprint(n))
		for m := range owners {
			if _, err := w.OpenID(w.Context(), owner, saved[m].ID); (err == nil) != (n == m) || err != nil && !errors.Is(err, repo.ErrNotFound) {
				w.Errorf("%d by %d: %v", m, n, err)
			}
		}
	}
}

// Writers of one name at once make versions without a gap, and none fails.
func testWriters(w *world) {
	owner := files.OfSession(w.session())
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			for m := range 3 {
				text := fmt.Sprint(n, m)
				if m == 2 {
					text = "the same"
				}
				if _, err := w.Save(w.Context(), owner, files.NewFile{Name: "f"}, reader(text)); err != nil {
					w.Error(err)
				}
			}
		})
	}
	all.Wait()
	found, err := w.Versions(w.Context(), owner, "f", repo.Page{})
	w.check(err)
	for n, file := range found.Items {
		if file.Version != int64(n)+1 {
			w.Errorf("%d is version %d", n, file.Version)
		}
	}
	if len(found.Items) != 36 {
		w.Errorf("%d versions", len(found.Items))
	}
	w.clean(25)
}
