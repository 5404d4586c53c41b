// Package harness puts the whole system together on this machine, as it is shipped: bin/devcluster as the API server, the
// manifests of manifests/overlays/dev rendered and applied, the three binaries run by dev/runner from those manifests, and
// dev/fleet as the engines that are scaled. It is a development tool for the end-to-end tests and the demo; product code must
// not import it.
//
// Start brings everything up and waits until a leader plans and the webhook guards; Stop ends it in the opposite order and
// leaves no process, port or file. In between, a Cluster gives clients, and knobs to break things.
package harness
