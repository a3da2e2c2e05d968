// Package effect makes calls to the outside that must not happen twice, such as a payment: a tool's call is reserved in
// the session's state, and committed, before it is sent, and its result is stored when the answer has come.
//
// A call whose process died, or whose answer never came, is unknown: [Once] does not send it again by itself. The tool
// can look whether it happened ([Policy.Reconcile]), or the remote honours idempotency keys ([Policy.HonoursKey]); a
// person answers the remaining ones ([Policy.Ask], [Resolve]).
//
// What happened once is known for as long as the session's state is: it is held, exported, erased and deleted with
// the session. docs/effects.md says what can still go wrong.
package effect
