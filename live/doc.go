// Package live serves the feeds of sessions over HTTP as server-sent events, which browsers read
// with EventSource. It is for services whose users watch a conversation, and answers while they
// are made.
//
// A feed has a session's messages, and the parts of its streams. The id of each event says how far a
// client has got in all of them. A client that was cut off says which event was the last one it got,
// as EventSource does by itself, and is sent what follows, by whichever process it reaches: each
// message and each part once, in order, none left out.
//
// Who may read what is for the caller to say ([Options].Authorize); there is no
// default. docs/live.md has an example of a page, and says what proxies and load
// balancers have to be told.
package live
