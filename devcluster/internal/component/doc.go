// Package component runs the Kubernetes programs that are linked into this
// binary, each with its own command line: the control plane (etcd and
// kube-apiserver in one process), kube-controller-manager and kubectl.
//
// It must not decide how a cluster is laid out: addresses, certificates and
// flags come from package cluster, which starts these as child processes.
// It is the only package that imports k8s.io/kubernetes, so that everything
// else compiles and tests in seconds. It is called by main.
package component
