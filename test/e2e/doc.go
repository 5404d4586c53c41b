// Package e2e proves the whole system on a real API server: the three binaries as the manifests run them, over real TLS, with
// simulated engines that are scraped over HTTP. `make build` must have built bin/.
package e2e
