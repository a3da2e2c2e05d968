// Package commit has many callers' writes made together. A feature says what a group sends, and
// what the answer means to each of its writes. Everything else is the same for all and stands
// here: which writes a group has, how many groups run at once, when one is tried again, and
// what a caller is told whose answer was lost, or that has gone.
//
// A write goes through these rooms: Committer.Submit queues it (package scheduler says when it is
// in a group); Group.Run makes attempts until one succeeds; the feature's Send sends the statement;
// its answer calls Done, Locked or Return for each write.
package commit
