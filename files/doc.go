// Package files keeps named files of a session, of a user and of a namespace, in versions 1, 2, 3, … without a gap. It
// is built on the contract of package repo alone: what is known of a file is in state, and its bytes are in a [Blobs].
//
// The same bytes are kept once in a namespace, whichever files, forks and versions have them, and never shared with
// another namespace. A session's files go with it: they are held, erased, deleted and exported with its state. A fork
// ([Files.Fork]) has its parent's files, and no byte is copied. What nothing refers to any more is removed by
// [Files.Sweep], after a grace. docs/files.md has it by task.
//
// All functions are safe for concurrent use, and keep nothing of their caller's memory.
package files
