// Package e2e tests the devcluster binary from outside, as its users run it.
// It builds the binary with the flags of the release build, so that a warm
// build cache serves both.
package e2e
