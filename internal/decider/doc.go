// Package decider is the decider process put together: it campaigns for the Lease and, while it leads, keeps sessions to the
// samplers, tells them what to observe, and plans every scaler.
//
// A pass is four lines (pass.go): gather, decide.Plan, commit, report. When a pass runs is schedule.go's matter, who runs it
// worker.go's, what a new leader waits for before takeover.go's; who observes what is assign.go's and observed.go's, what was
// observed last readings.go's and before past.go's, what is remembered memory.go's. It must not judge (decide), read the foreign
// API (target) or build requests (kube). cmd/decider runs it; nobody imports it.
package decider
