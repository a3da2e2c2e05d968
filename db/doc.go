// Package db holds the Go code that sqlc generates from queries/. It is for
// repo/postgres, and its API is not stable: names, types and statements may change
// in any release. Use package repo instead.
//
// All files but this one are generated (make generate).
package db
