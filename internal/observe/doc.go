// Package observe is the vocabulary of observation: what one scrape of one Pod says (Sample), what one pass over a role says
// (RoleObservation), and what a sampler is told to observe (Assignment).
//
// Plain values that copy: no behaviour beyond naming, no clock, no transport. Everything that can be missing is a Value, so
// that missing is never taken for zero. Scrape makes Samples, windows turn them into RoleObservations, stream carries
// those, decide judges them.
package observe
