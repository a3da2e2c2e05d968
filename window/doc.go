// Package window chooses the messages of a session that go into a prompt.
//
// [Read] gives the newest messages that fit into a budget of tokens, in the order of the transcript, so that a provider
// accepts them: calls and their results are kept or left out together, and each result follows its call. Messages of
// the roles system and developer always stay, and so does the user's last message. Pinned messages stay as long as they
// fit.
//
// A message of the kind repo.KindReasoning begins a step: it, other reasoning that follows it, and what the assistant
// does directly after that, until it reasons again or another role comes, are kept or left out together, with the
// results of the calls. Append a step in one turn: no message of another writer may come between. Calls that have what
// the model thought in their own payload need no more. Reasoning that nothing follows is left out, since providers
// refuse it.
//
// A prompt may begin with the assistant, and have messages without content. Where a provider refuses that, put a
// message of the user's before it, and a word into those.
//
// [Compact] has a summary written when a session has grown, by one of any number of
// workers; Read then gives the summary in place of what it covers.
//
// The beginning of a prompt stays the same, byte for byte, while messages are added, so that caches of
// the provider's are of use: it changes when a summary is added, or, without summaries, in large steps.
package window
