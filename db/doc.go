// Package db holds the statements of queries/, as sqlc generates them. It is for
// repo/postgres, and promises nothing: names, types and statements change with any
// release. What is stable is package repo.
//
// This file is written by hand; all others are generated (make generate).
package db
