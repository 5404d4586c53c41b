// Package target is all that is known of the foreign ModelDeployment: its fields, labels, annotations, Pods, Workloads,
// retirement protocol and name lengths. Facts about somebody else's API live here alone.
//
// It is vocabulary: it reads Kubernetes objects that others fetched and returns plain values; it talks to nothing.
package target
