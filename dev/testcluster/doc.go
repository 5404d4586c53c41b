// Package testcluster gives the tests of one package a real API server: bin/devcluster, started when the first test asks for
// it and stopped when the last has run.
//
// It owns the process and nothing in the cluster: what a test needs there it applies itself. With MDS_TEST_KUBECONFIG=1 the
// cluster of $KUBECONFIG is used instead. It is development code; product code must not import it.
package testcluster
