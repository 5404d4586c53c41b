// Command demo shows the main job: it starts the whole system on this machine (dev/harness), sends scripted traffic to a
// simulated model deployment, shows in a live table how its scaler follows, and tells every commit with its reason. It is a
// development tool, started by `make demo`.
//
// It exits 0 only if the deployment grew above one replica and came back to one.
package main
