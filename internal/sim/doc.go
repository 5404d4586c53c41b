// Package sim is the simulated world: inference engines with queues, the router before them, the quota and the orderly
// retirement behind a ModelDeployment, and the traffic that clients send. It also renders the /metrics pages that vLLM and
// SGLang would print, at their real size, from the state of its engines.
//
// DEVELOPMENT TOOL: it stands in for GPUs and for the operator that owns ModelDeployments, and is in none of the images.
//
// It is pure: time is an argument, there is no clock, no random source, no goroutine, no network and no cluster. The same
// calls give the same world. dev/fleet plays it against an API server; simulations and benchmarks call it directly.
//
// A request passes through the stages of its deployment: one Server instance, or Encode (where there is one), Prefill and
// Decode. At each stage the least loaded instance that takes requests gets it. See Engine for what happens inside.
package sim
