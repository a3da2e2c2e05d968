package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// check is a property that was checked, and whether it holds.
type check struct {
	what string
	ok   bool
}

// runOurs has the writers append through the library while a reader follows.
func runOurs(ctx context.Context, sessions repo.Sessions, out io.Writer) (result, []check, error) {
	fmt.Fprintf(out, "%d writers append %d messages each to one session, while a reader follows it:\n", writers, perWriter)
	session, err := sessions.Create(ctx, repo.NewSession{Actor: "demo/ours"})
	if err != nil {
		return result{}, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	followed := make(chan following, 1)
	go func() { followed <- follow(ctx, sessions, session.ID, writers*perWriter) }()

	begin := time.Now()
	acknowledged, err := write(func(content string) (repo.ID, error) {
		messages, err := sessions.Append(ctx, session.ID, repo.NewMessage{Role: repo.RoleUser, Content: content})
		if err != nil {
			return repo.ID{}, err
		}
		return messages[0].ID, nil
	})
	took := time.Since(begin)
	if err != nil {
		cancel()
		<-followed
		return result{}, nil, err
	}
	reader := <-followed
	if reader.err != nil {
		return result{}, nil, fmt.Errorf("reader: %w", reader.err)
	}

	stored := map[repo.ID]int{}
	sequences := []int64{}
	var last repo.Message
	for message, err := range sessions.Messages(ctx, session.ID, 0) {
		if err != nil {
			return result{}, nil, err
		}
		stored[message.ID]++
		sequences = append(sequences, message.Sequence)
		last = message
	}
	ours := summarize(acknowledged, stored, sequences, took)
	checks := []check{
		{"every acknowledged message is stored once", ours.lost == 0 && len(sequences) == len(acknowledged)},
		{"the sequences are 0, 1, 2, … without a gap or a duplicate", ours.duplicates == 0 && ours.gaps == 0},
		{fmt.Sprintf("the reader saw all %d in order while they were written (%d reads)", reader.seen, reader.reads), reader.seen == writers*perWriter},
	}
	more, err := checkRetries(ctx, sessions, last)
	return ours, append(checks, more...), err
}

// checkRetries appends the last message again, and one at a stale sequence.
func checkRetries(ctx context.Context, sessions repo.Sessions, last repo.Message) ([]check, error) {
	again, err := sessions.Append(ctx, last.SessionID, repo.NewMessage{ID: last.ID, Role: last.Role, Content: last.Content})
	if err != nil {
		return nil, err
	}
	_, err = sessions.AppendTurn(ctx, repo.Turn{
		SessionID: last.SessionID, Expected: new(int64), Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "late"}},
	})
	var conflict *repo.SequenceConflictError
	if !errors.As(err, &conflict) {
		return nil, fmt.Errorf("an append at a stale sequence gave %w", err)
	}
	return []check{
		{"appending a message again, by its id, returned the stored one", again[0].Sequence == last.Sequence},
		{"an append at a stale sequence was refused, with an error that says the next one", conflict.Next == last.Sequence+1},
	}, nil
}

// following is what the reader saw.
type following struct {
	seen, reads int
	err         error
}

// follow streams the session, each time from where it ended before, until it has
// seen want messages in order.
func follow(ctx context.Context, sessions repo.Sessions, sessionID repo.ID, want int) (f following) {
	for f.seen < want {
		f.reads++
		for message, err := range sessions.Messages(ctx, sessionID, int64(f.seen)) {
			if err != nil {
				f.err = err
				return f
			}
			if message.Sequence != int64(f.seen) {
				f.err = fmt.Errorf("sequence %d after %d messages", message.Sequence, f.seen)
				return f
			}
			f.seen++
		}
		select {
		case <-ctx.Done():
			f.err = ctx.Err()
			return f
		case <-time.After(5 * time.Millisecond):
		}
	}
	return f
}

// write runs the writers and returns the ids of the acknowledged messages.
func write(appendOne func(content string) (repo.ID, error)) ([]repo.ID, error) {
	var wg sync.WaitGroup
	acknowledged := make([][]repo.ID, writers)
	failures := make([]error, writers)
	for w := range writers {
		wg.Go(func() {
			for i := range perWriter {
				id, err := appendOne(fmt.Sprintf("message %d of writer %d", i, w))
				if err != nil {
					failures[w] = err
					return
				}
				acknowledged[w] = append(acknowledged[w], id)
			}
		})
	}
	wg.Wait()
	return slices.Concat(acknowledged...), errors.Join(failures...)
}
