// Package kube is the decider's hands on the cluster: a client, warm caches, gather (listers to values), commit (the only
// writer of replica counts), status, events and the leader's Lease.
//
// It translates and transports, it never judges: what to write is decide's matter, whether a write is allowed is fence's, and
// every fact about the foreign ModelDeployment is target's. It must not import another adapter. The decider calls it; every
// write it makes is made under the Lease (D37).
package kube
