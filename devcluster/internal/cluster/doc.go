// Package cluster is "devcluster up": it claims a block of loopback
// addresses, makes certificates and configuration, starts the components as
// child processes, waits until they answer, and takes everything away again.
//
// It must not import Kubernetes or etcd: it knows their command lines and
// their health endpoints, nothing else. Whether a component is linked into
// this binary or comes from KUBEBUILDER_ASSETS makes no other difference. It
// is called by main.
package cluster
