// Package live serves sessions and streams over HTTP as server-sent events, which browsers
// read with EventSource. It is for services whose users watch a conversation, and answers
// while they are made.
//
// A [Handler] follows a session with repo.MessageReader.Follow, and sends each message as an
// event whose id names the session and the message's sequence; and likewise the parts of a stream. A client that
// was cut off says which event was the last one it got, as EventSource does by itself, and is
// sent what follows, by whichever process it reaches: each message once, in order, none left
// out.
//
// Who may read what is for the caller to say ([Options].Authorize); there is no
// default. docs/live.md has an example of a page, and says what proxies and load
// balancers have to be told.
package live
