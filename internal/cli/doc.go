// Package cli is the kubectl plugin: each command is a file newX that root.go lists.
//
// It owns arguments and what people read. What a command tells comes from the very packages that the sampler and the decider
// run: inspect from scrape and windows, test and replay from scenario and decide, validate from crd and admission. It never
// writes to a cluster; cluster.go reads from one, watch_*.go follows its decider. cmd/kubectl-mds calls Main.
package cli
