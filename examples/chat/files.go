package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/files/filespg"
	"github.com/seed-df90f812/agentstore/repo"
)

// newPictures keeps the bytes of pictures where the store keeps everything else.
func newPictures(store *agentstore.Store) (*files.Files, error) {
	if store.Pool() == nil {
		return files.New(store, namespace, files.NewMemory(), files.Options{MaxBytes: maxRequest})
	}
	blobs, err := filespg.New(store.Pool())
	if err != nil {
		return nil, err
	}
	return files.New(store, namespace, blobs, files.Options{MaxBytes: maxRequest})
}

// attach adds the picture of a request to its question: the payload refers to it for the model (files.References), and
// the metadata for the page.
func (c chat) attach(r *http.Request, turn *repo.Turn) error {
	upload, header, err := r.FormFile("picture")
	if errors.Is(err, http.ErrMissingFile) || errors.Is(err, http.ErrNotMultipart) || len(turn.Messages) == 0 {
		return nil
	} else if err != nil {
		return err
	}
	defer func() { _ = upload.Close() }()
	kind := header.Header.Get("Content-Type")
	if !strings.HasPrefix(kind, "image/") {
		return &repo.InvalidError{Field: "picture", Reason: "is no picture"}
	}
	create := *turn.Create
	create.Existing = repo.ExistingAny
	session, err := c.Sessions().Create(r.Context(), create)
	if err != nil {
		return err
	}
	file := files.NewFile{Name: turn.ID, Type: kind}
	picture, err := c.saveOnce(r.Context(), files.OfSession(session.ID), file, upload)
	if err == nil {
		question := &turn.Messages[0]
		question.Payload = files.Payload(picture.Reference())
		question.Metadata = fmt.Appendf(nil, `{"id":%q,"picture":%q}`, turn.ID, picture.ID)
	}
	return err
}

// saveOnce saves a picture under its question's id. However often the question is sent, the first version counts; if
// that was deleted, so are those that come late.
func (c chat) saveOnce(ctx context.Context, owner files.Owner, file files.NewFile, upload io.Reader) (files.File, error) {
	first, err := c.pictures.Open(ctx, owner, file.Name, 1)
	if errors.Is(err, repo.ErrNotFound) {
		if _, err = c.pictures.Save(ctx, owner, file, upload); err != nil {
			return files.File{}, err
		}
		first, err = c.pictures.Open(ctx, owner, file.Name, 1)
		if errors.Is(err, repo.ErrNotFound) {
			_, deleting := c.pictures.Delete(ctx, owner, file.Name)
			return files.File{}, errors.Join(err, deleting)
		}
	}
	if err != nil {
		return files.File{}, err
	}
	return first.File, first.Close()
}

// pictureOf says which picture a request asks for, and that it is one of the user's own conversation.
func (c chat) pictureOf(r *http.Request) (files.Owner, string, error) {
	session, err := c.Sessions().Find(r.Context(), key(r))
	return files.OfSession(session), r.PathValue("picture"), err
}

// sweep removes, now and then, the bytes of pictures that were deleted.
func (c chat) sweep(ctx context.Context) {
	for every := time.Tick(time.Minute); ; {
		select {
		case <-ctx.Done():
			return
		case <-every:
		}
		if _, err := c.pictures.Sweep(ctx, 0); err != nil {
			log.Print("pictures: ", err)
		}
	}
}
