// Command chaos breaks a running system in every way that its failure model names (ARCHITECTURE, "Failure model"), each as
// often as asked, while models grow and shrink, and holds every version of every target against dev/invariants. Run it with
// `make chaos`; docs/reliability.md has the table.
//
// Everything is real: API server, manifests, the three programs as they are shipped, TLS. The programs are not changed for it:
// what has to happen between two of a program's calls is done by a proxy that stands between it and whom it calls. Each
// injection begins while counts are moving, and ends when they move again as they should. A witness listens to what deciders
// tell of their passes (ObservationService): fail-over is timed by it, and removals are held against what was observed.
package main
