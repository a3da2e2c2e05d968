// Package clock tests the store on a server whose clock steps, as when it is set, or
// at a failover to a server whose clock is behind.
package clock
