// Command samplerload measures one sampler under the load of a large fleet: it starts bin/sampler and, in a process of its own,
// engines that serve a real exposition over HTTP on loopback; it plays the decider, and reports what the sampler cost.
//
// It owns its processes and the report. It judges by the sampler's own metrics and by the observations that arrive.
package main
