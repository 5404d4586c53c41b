// Package target is all that is known of the foreign ModelDeployment: its fields, labels, annotations, Pods, Workloads,
// retirement protocol and name lengths. Facts about somebody else's API live here alone.
//
// It is vocabulary: it reads Kubernetes objects that others fetched and returns plain values; it talks to nothing. Parse
// and Instances are called where the planner's input is gathered, Parse and the name rules where admission judges.
//
// Of a Pod it reads no more than: name, UID, labels, annotations, owner references and deletion timestamp; the node name
// and the container names; the IP, the conditions Ready and PodScheduled, and the ID and restart count of each container. A
// cache may drop the rest.
package target
