// Package scenario runs policy tests without a cluster: a file tells a scaler, its target, what happens and what is expected of
// every planning pass; a simulated world follows the commits.
//
// Parse reads a file, Play runs it against decide.Plan (the very planner that the decider runs), Judge holds the passes against
// the expectations. Run is the same in single steps, for tests that make up events as they go. `kubectl mds test` and `kubectl
// mds replay` call it, and so do the tests of the planner.
//
// It is pure: no clock, no network, no files; whoever calls it reads those. It knows the planner by its public face alone, and
// what it simulates is as small as the format needs it: the fleet in internal/sim is the realistic one.
package scenario
