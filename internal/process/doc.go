// Package process gives the binaries their manners: grouped flags validated all at once, --version, structured logs whose
// level can change at run time, /livez, /readyz and /metrics, and an orderly end on SIGTERM within a deadline.
//
// Each cmd/*/main.go calls Main with its Spec. The package knows nothing of scaling.
package process
