// Package windows turns successive Samples into what happened between them: rates and latencies of a Pod, the observation of
// a role, sliding averages and bounded histories.
//
// Everything here is a value or a small state with methods that take `now`: no clock, no transport, no goroutine. The
// sampler folds its scrapes with Role; the planner keeps an Average and a History for each role.
package windows
