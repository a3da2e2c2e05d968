// Package clock tests the store on a server whose clock steps, as it does at a
// failover to one that is behind, or when it is set.
package clock
