// Package decider is the decider process put together: it campaigns for the Lease and, while it leads, keeps sessions to the
// samplers, tells them what to observe, and plans every scaler.
//
// A pass is four lines (pass.go): gather, decide.Plan, commit, report. When a pass runs is schedule.go's matter, who observes
// what assign.go's and observed.go's, what was observed last readings.go's, what is remembered memory.go's. It must not judge (decide), read the
// foreign API (target) or build requests (kube). cmd/decider runs it; nobody imports it.
package decider
