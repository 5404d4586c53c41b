// Package controlplane starts bin/devcluster and stops it: a real Kubernetes API server for the tests, the end-to-end harness
// and the demo. It owns the process and nothing in the cluster. It is a development tool; product code must not import it.
package controlplane
