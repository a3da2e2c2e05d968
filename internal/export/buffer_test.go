package export_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/repo"
)

// reread reads a buffered document from its beginning, and returns its messages.
func reread(t *testing.T, buffered *export.Buffered) (count int, content string) {
	t.Helper()
	reader, err := buffered.Reader()
	if err != nil {
		t.Fatal(err)
	}
	for {
		message, err := reader.Next()
		if err == io.EOF { //nolint:errorlint // itself: see Next
			return count, content
		}
		if err != nil {
			t.Fatal(err)
		}
		count, content = count+1, message.Content
	}
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		t.Errorf("%s was left behind", entry.Name())
	}
}

// A buffered document is read unchanged, however long, and leaves no file behind,
// not even if it is invalid or its reader fails.
// Guarantee: Memory: An import takes bounded memory, and removes its temporary file.
func TestBuffer(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, count := range []int64{0, 1, 100, 12_000} {
		var text bytes.Buffer
		if err := generate(&text, count); err != nil {
			t.Fatal(err)
		}
		whole := text.Bytes()
		buffered, err := export.Buffer(t.Context(), bytes.NewReader(whole))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, _ := reread(t, buffered); got != int(count) {
				t.Errorf("%d messages, want %d", got, count)
			}
		}
		buffered.Close()
		wantEmpty(t, dir)
		for name, r := range map[string]io.Reader{
			"cut":     bytes.NewReader(whole[:len(whole)-10]),
			"failing": io.MultiReader(bytes.NewReader(whole[:len(whole)-10]), iotest.ErrReader(errReader)),
			"more":    io.MultiReader(bytes.NewReader(whole), strings.NewReader("{}")),
		} {
			_, err := export.Buffer(t.Context(), r)
			if !errors.Is(err, repo.ErrImport) || name == "failing" && !errors.Is(err, errReader) {
				t.Errorf("%s: %v", name, err)
			}
			wantEmpty(t, dir)
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err = export.Buffer(ctx, io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), canceling{cancel}))
		if !errors.Is(err, context.Canceled) || errors.Is(err, repo.ErrImport) {
			t.Errorf("cancelled: %v", err)
		}
		wantEmpty(t, dir)
	}
}

var errReader = errors.New("the reader's own")

type canceling struct{ cancel func() }

func (c canceling) Read([]byte) (int, error) {
	c.cancel()
	return 0, nil
}

// If there is no room for a file, the error does not blame the document.
func TestBufferWithoutRoom(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/nowhere")
	var text bytes.Buffer
	if err := generate(&text, 20_000); err != nil {
		t.Fatal(err)
	}
	_, err := export.Buffer(t.Context(), &text)
	if !errors.Is(err, repo.ErrUnavailable) || errors.Is(err, repo.ErrImport) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// The same holds if the file cannot be read.
func TestBufferedFileIsGone(t *testing.T) {
	var text bytes.Buffer
	if err := generate(&text, 20_000); err != nil {
		t.Fatal(err)
	}
	kept, err := export.Buffer(t.Context(), &text)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := kept.Reader()
	if err != nil {
		t.Fatal(err)
	}
	kept.Close()
	_, again := kept.Reader()
	for err == nil {
		_, err = reader.Next()
	}
	for _, err := range []error{again, err} {
		if !errors.Is(err, repo.ErrUnavailable) || errors.Is(err, repo.ErrImport) || !errors.Is(err, os.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
}
