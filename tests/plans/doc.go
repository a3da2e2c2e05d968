// Package plans holds the tests of plans under load: many goroutines and
// processes that race for one plan, and the lifecycle against a model of it.
package plans
