package agentstore

import (
	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/postgres"
)

// WithTx makes an effect of the caller's own in a transaction: a row, or a job in a queue
// that shares the database. tx is what InTx or postgres.Bind gave. On PostgreSQL WithTx
// calls effect with the transaction. In memory there is none, and it calls inMemory, which
// a unit test sets to see the effect; nil: nothing is called. What inMemory did is not undone
// if the transaction is rolled back. WithTx returns the error of what it called.
//
// Anything else is an InvalidError, so that no effect is lost: the repositories of a store
// outside of a transaction, or a wrapper of the caller's.
func WithTx(tx repo.Repositories, effect func(pgx.Tx) error, inMemory func() error) error {
	own, onPostgres := postgres.Tx(tx)
	switch {
	case onPostgres:
		return effect(own)
	case !memory.IsTx(tx):
		return &repo.InvalidError{Field: "tx", Reason: "is not a transaction of a store"}
	case inMemory == nil:
		return nil
	}
	return inMemory()
}
