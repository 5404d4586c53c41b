// Package fence keeps the promise that nobody but the owner moves a bound deployment's counts (spec "Binding fence").
//
// It owns the codec of the two annotations and the one table of who may change what (Check). The webhook asks it about
// everybody's writes; the decider asks it about its own before it sends them. It is pure vocabulary: what only a live read
// can tell (the scaler named by an orphaned binding, the leader's Lease) is asked through Facts, and only by the rules that
// need it.
package fence
