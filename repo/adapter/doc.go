// Package adapter has what adapters to agent frameworks need, on top of the contract: it
// works on every store. docs/adapters.md says which call is for what. Others may use it, too.
package adapter
