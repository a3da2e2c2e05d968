// Package rules holds the rules that every store has to keep. It is for authors of
// stores, that is, of implementations of the interfaces of package repo. The rules
// are: how arguments are checked, how values are stored, how a repeated call is
// told from a conflicting one, where a page begins, which transitions a plan can
// make, and what the audit entry of a prune says.
//
// repo/postgres, repo/memory and package audit are built on it, and other stores
// may be. Code that only uses a store does not need it and should not rely on it:
// its functions change with the needs of stores.
//
// A normalized value is the result of a Normalize function. It was checked, has
// its defaults filled in, and shares no memory with the caller's argument, so that
// the caller may reuse the argument as soon as the call has returned, even if the
// store is still at work.
package rules
