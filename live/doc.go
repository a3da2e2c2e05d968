// Package live serves the feeds of sessions over HTTP as server-sent events, which browsers read
// with EventSource. It is for services whose users watch a conversation, and answers while they
// are made.
//
// A feed has a session's messages, and the parts of its streams. The id of each event has the
// client's position in all of them. A client that was cut off sends the id of its last event, as
// EventSource does by itself, and gets what follows from any process: each message and each part
// once, in order, without gaps.
//
// The caller decides who may read what ([Options].Authorize); there is no
// default. docs/live.md has an example of a page, and the settings of proxies
// and load balancers.
package live
