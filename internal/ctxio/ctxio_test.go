package ctxio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

var errOwn = errors.New("its own")

func TestReaderReads(t *testing.T) {
	text := strings.Repeat("0123456789", 20_000)
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text[:100])),
		"end with data": iotest.DataErrReader(strings.NewReader(text)),
	} {
		got, err := io.ReadAll(NewReader(t.Context(), r))
		if err != nil || !strings.HasPrefix(text, string(got)) || len(got) < 100 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if err := iotest.TestReader(NewReader(t.Context(), strings.NewReader(text)), []byte(text)); err != nil {
		t.Error(err)
	}
	got, err := io.ReadAll(NewReader(t.Context(), io.MultiReader(strings.NewReader("x"), iotest.ErrReader(errOwn))))
	if string(got) != "x" || !errors.Is(err, errOwn) {
		t.Errorf("%q, %v", got, err)
	}
}

// stalling is a reader and writer that blocks until it is released, and then uses its
// buffer.
type stalling struct{ released chan struct{} }

func (s stalling) Read(p []byte) (int, error) {
	<-s.released
	return copy(p, "late"), nil
}

func (s stalling) Write(p []byte) (int, error) {
	<-s.released
	return len(bytes.Clone(p)), nil
}

// If a Read or Write blocks, the caller returns when its context ends, and its buffer is
// not touched later. synctest checks that the goroutine ends.
func TestStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stalling{make(chan struct{})}
		for _, call := range []func(ctx context.Context, p []byte) (int, error){
			func(ctx context.Context, p []byte) (int, error) { return NewReader(ctx, s).Read(p) },
			func(ctx context.Context, p []byte) (int, error) { return NewWriter(ctx, s).Write(p) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			p := []byte("mine")
			if n, err := call(ctx, p); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %d, %v", n, err)
			}
			cancel()
			if n, err := call(ctx, p); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after its end the context gave %d, %v", n, err)
			}
			defer func() {
				if string(p) != "mine" {
					t.Errorf("the caller's buffer contains %q", p)
				}
			}()
		}
		close(s.released)
		synctest.Wait()
	})
}

func TestWriterWrites(t *testing.T) {
	var got bytes.Buffer
	w := NewWriter(t.Context(), &got)
	for _, text := range []string{"a", "", "bc"} {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if got.String() != "abc" {
		t.Errorf("written was %q", got.String())
	}
	w = NewWriter(t.Context(), iotest.TruncateWriter(failing{}, 0))
	if _, err := w.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	w = NewWriter(t.Context(), failing{})
	for range 2 {
		if _, err := w.Write([]byte("x")); !errors.Is(err, errOwn) {
			t.Errorf("got %v", err)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error)  { panic(errOwn) }
func (failing) Write([]byte) (int, error) { return 0, errOwn }

// A panic of the reader is passed on to the caller's goroutine.
func TestPanics(t *testing.T) {
	defer func() {
		if got := recover(); got != errOwn { //nolint:errorlint // the very value
			t.Errorf("the panic is %v", got)
		}
	}()
	_, _ = NewReader(t.Context(), failing{}).Read(make([]byte, 1))
}

// counting counts its calls.
type counting struct{ calls int }

func (c *counting) Read(p []byte) (int, error)  { c.calls++; return len(p), nil }
func (c *counting) Write(p []byte) (int, error) { c.calls++; return len(p), nil }

func TestEndedContextCallsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var c counting
		if n, err := NewReader(ctx, &c).Read(make([]byte, 1)); n != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("Read gave %d, %v", n, err)
		}
		if n, err := NewWriter(ctx, &c).Write(make([]byte, 1)); n != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("Write gave %d, %v", n, err)
		}
		synctest.Wait() // a call would have a goroutine of its own
		if c.calls != 0 {
			t.Errorf("%d calls", c.calls)
		}
	})
}

// writerFunc is a function that implements io.Writer and io.Reader.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
func (f writerFunc) Read(p []byte) (int, error)  { return f(p) }

// A Write that continues after its caller has returned writes the original data, although
// the caller has reused its buffer.
func TestStalledWriteHasItsOwnBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var wrote string
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := []byte("mine")
		_, err := NewWriter(ctx, writerFunc(func(p []byte) (int, error) {
			<-release
			wrote = string(p)
			return len(p), nil
		})).Write(p)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		copy(p, "hers")
		close(release)
		synctest.Wait()
		if wrote != "mine" {
			t.Errorf("written was %q", wrote)
		}
	})
}

// A violation of the io contracts is an error, not a panic.
func TestImpossibleCounts(t *testing.T) {
	for _, n := range []int{-1, 1 << 30} {
		broken := writerFunc(func([]byte) (int, error) { return n, nil })
		if got, err := NewReader(t.Context(), broken).Read(make([]byte, 8)); got != 0 || !errors.Is(err, errCount) {
			t.Errorf("%d read gave %d, %v", n, got, err)
		}
		if got, err := NewWriter(t.Context(), broken).Write(make([]byte, 8)); got != 0 || !errors.Is(err, errCount) {
			t.Errorf("%d written gave %d, %v", n, got, err)
		}
	}
	short := writerFunc(func([]byte) (int, error) { return 3, nil })
	if got, err := NewWriter(t.Context(), short).Write(make([]byte, 8)); got != 3 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a short write gave %d, %v", got, err)
	}
}
