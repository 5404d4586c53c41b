// Package sampler is the sampler process: it scrapes the Pods of the roles it was assigned, every interval, and publishes one
// observation per role and pass.
//
// It owns when a Pod is scraped, what is kept for a replay, and how the process is put together from scrape, windows and
// stream. It must not know Kubernetes, decide who owns a role, or judge what it observed. cmd/sampler calls Run.
package sampler
