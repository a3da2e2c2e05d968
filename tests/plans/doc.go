// Package plans tests plans under load, with many goroutines and processes that race
// for one plan, and compares the lifecycle with a model.
package plans
