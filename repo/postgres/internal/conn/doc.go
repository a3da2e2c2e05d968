// Package conn sends statements to PostgreSQL: on a connection of a pool or in a transaction, each
// with its settings checked and at the level that the store's guarantees are tested at. It gives
// the errors of the database their meaning, the sentinels of package repo, and says which
// operations may be begun again, and when.
//
// It knows no statement of the store's.
package conn
