// Package budget bounds what agents spend: money and tokens by tenant, user, session or any other name, in a day, in a
// month or ever. It is for services that call models for others, and is built on the contract of package repo alone.
//
// A caller reserves the worst case before it calls a model, and settles what it was afterwards, or releases it. What is
// reserved and what is settled never pass a limit together, however many processes there are. A reservation whose
// process died comes back after its life. docs/budgets.md says how, and what can still go wrong.
//
// All functions are safe for concurrent use, and keep nothing of their caller's memory.
package budget
