// Package fleet plays the simulated world of internal/sim against an API server. It stands in for three things at once:
//
//   - the operator that owns ModelDeployments: it creates and retires their Pods by its contract (labels, ordinals, members,
//     annotations, owner references), and writes status.roles, status.phase and status.retirement;
//   - Kueue: one Workload for each instance, with quota per instanceType and a delay before admission;
//   - the kubelet: Pods become running and ready, get a loopback address each, serve the page of their simulated engine
//     there on /metrics, and end some time after they were told to.
//
// DEVELOPMENT TOOL. It is for a cluster that has none of the three, such as devcluster with the CRDs of dev/crds. Against a
// real cluster it would fight their owners. It is in none of the images.
//
// The demo, the end-to-end harness and tests embed it: New, Run until the context ends, and knobs that work in between
// (SetTraffic, SetQuota, Abort, Break, Restart, Evict). The world goes on while the API server is away, and what has happened is
// told when it is back.
//
// One goroutine moves the world by the clock, another compares it with the informers' caches at every tick and writes the
// difference; the mutex of Fleet guards the world, which engine pages are rendered from on request.
package fleet
