// Package decide is the planner: Plan(Input) Decision, a pure function of its arguments, time and memory included.
//
// It recommends (spec "Algorithms"), constrains ("Bounds and ratios", "Pacing and guards"), recovers ("Resource
// rebalancing", "Status") and explains: the count after every stage with the rule that changed it. The same input always
// gives the same decision, so a pass can be recorded, replayed and put in a golden file.
//
// It must not read a clock, a random source, a cluster or a file. The decider calls it once a pass; policy tests, the
// simulator and property tests run the very same code.
package decide
