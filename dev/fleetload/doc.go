// Command fleetload measures one decider under the load of a large fleet: it starts devcluster and bin/decider, makes thousands
// of deployments with their Pods and scalers, and plays the samplers, over real gRPC, and nobody else: counts that are
// committed are not followed by Pods. It reports what planning costs while the fleet is steady and when a part of it bursts.
//
// It owns its processes, the demand and the report. It judges by the decider's own metrics and by what arrives at the API
// server.
package main
