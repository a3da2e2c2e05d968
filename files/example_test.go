package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/files/filestest"
	"github.com/seed-df90f812/agentstore/repo"
)

// bucket is what of a client for S3 is needed: Upload is that of its upload manager, which sends parts and learns the
// length as it reads.
type bucket interface {
	Upload(ctx context.Context, key string, body io.Reader) error
	GetObject(ctx context.Context, key, byteRange string) (io.ReadCloser, error)
	DeleteObject(ctx context.Context, key string) error
}

var errNoSuchKey, errInvalidRange = errors.New("NoSuchKey"), errors.New("InvalidRange")

// s3 keeps the bytes of files in a bucket.
type s3 struct{ bucket bucket }

func (s s3) Put(ctx context.Context, key string, r io.Reader) error {
	return s.bucket.Upload(ctx, key, r)
}

func (s s3) Get(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	body, err := s.bucket.GetObject(ctx, key, fmt.Sprintf("bytes=%d-", offset))
	switch {
	case errors.Is(err, errNoSuchKey):
		return nil, &repo.NotFoundError{Kind: "blob", Name: key}
	case errors.Is(err, errInvalidRange): // the offset is the end
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	return body, err
}

func (s s3) Delete(ctx context.Context, key string) error {
	return s.bucket.DeleteObject(ctx, key) // of what is not there, too
}

// The bytes of files in S3.
func ExampleBlobs() {
	var blobs files.Blobs = s3{&fake{objects: map[string][]byte{}}}
	fmt.Println(blobs.Delete(context.Background(), "acme/nothing"))
	// Output: <nil>
}

// fake is a bucket in memory.
type fake struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func (f *fake) Upload(ctx context.Context, key string, body io.Reader) error {
	data, err := io.ReadAll(body)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects[key] = data
	return nil
}

func (f *fake) GetObject(ctx context.Context, key, byteRange string) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	offset := 0
	_, err := fmt.Sscanf(byteRange, "bytes=%d-", &offset)
	data, found := f.objects[key]
	switch {
	case err != nil || ctx.Err() != nil:
		return nil, errors.Join(err, ctx.Err())
	case !found:
		return nil, errNoSuchKey
	case offset >= len(data):
		return nil, errInvalidRange
	}
	return io.NopCloser(bytes.NewReader(data[offset:])), nil
}

func (f *fake) DeleteObject(ctx context.Context, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.objects, key)
	return ctx.Err()
}

func TestS3(t *testing.T) {
	t.Parallel()
	filestest.RunBlobs(t, func(*testing.T) files.Blobs { return s3{&fake{objects: map[string][]byte{}}} })
}
