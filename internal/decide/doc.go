// Package decide is the planner: Plan(Input) Decision, a pure function of its arguments, time and memory included.
//
// It recommends (spec "Algorithms"), constrains ("Bounds and ratios", "Pacing and guards"), recovers ("Resource
// rebalancing", "Status") and explains: the count after every stage with the rule that changed it. The same input always
// gives the same decision, so a pass can be recorded, replayed and put in a golden file.
//
// Plan reads like a table of contents. What it calls are chains: ownership, conflicts, stages, growthLimits, shrinkForbidden,
// recoveries, obstacles. Each is a list of small named checks, and the list is the documentation of their order. Beside it
// stand Settle (the memory after a write), StateFromStatus, State.Status and NeedsWrite (the memory and the status),
// Rebuild (the memory from replayed observations) and Feasible (for admission).
//
// It must not read a clock, a random source, a cluster or a file. The decider calls it once a pass; policy tests, the
// simulator and property tests run the very same code.
package decide
