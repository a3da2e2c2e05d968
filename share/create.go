package share

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Create makes a link that shows the transcript of a session up to the message with the sequence at, for life, from
// MinLife to MaxLife. The token is for its URL, and is told nowhere else. Who may share the session is the caller's to
// check. After ErrUnknownOutcome there may be a link whose token is lost: see List.
//
// Errors: InvalidError, also for a session without an owner, whose erasure could not end the link; NotFoundError for the
// session, and for the message; those of Sessions.Fork.
func (l *Links) Create(ctx context.Context, session repo.ID, at int64, life time.Duration) (
	link Link, token string, err error,
) {
	if life < MinLife || life > MaxLife {
		return link, "", &repo.InvalidError{Field: "life", Reason: "is not from a second to 366 days"}
	}
	of, err := l.store.Sessions().Get(ctx, session)
	if err == nil && of.Owner == "" {
		err = &repo.InvalidError{Field: "session", Reason: "has no owner"}
	}
	if err != nil {
		return link, "", err
	}
	now, err := l.clock.Now(ctx)
	if err != nil {
		return link, "", err
	}
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // does not fail
	hash := sha256.Sum256(secret)
	link = Link{repo.NewID(), session, at, now.Add(life).UTC().Truncate(time.Microsecond)}
	text, _ := json.Marshal(record{link, hash[:]}) //nolint:errchkjson // texts, numbers, and a time near that of the database
	err = l.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		fork := repo.NewSession{ID: link.ID, Owner: of.Owner, Actor: actorOf(of.Owner), FencedOnly: true}
		if _, err := tx.Sessions().Fork(ctx, session, at, fork); err != nil {
			return err
		}
		change := repo.StateChange{Scope: repo.Scope{SessionID: link.ID}, Key: recordKey, Value: text}
		_, err := tx.State().Change(ctx, []repo.StateChange{change})
		return err
	})
	if err != nil {
		return Link{}, "", err
	}
	return link, encoding.EncodeToString(append(link.ID[:], secret...)), nil
}
