// Package adapter has what adapters to agent frameworks need, on top of the contract: it
// works on every store. Others may use it, too.
package adapter
