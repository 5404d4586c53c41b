// Package observations serves ObservationService on every copy of the decider: what was observed and planned of each role,
// listed or watched by whoever may.
//
// The leading copy publishes each pass to a View and answers from it; a copy that stands by forwards to the leader. A watch
// holds the latest of each role that its reader has not taken yet, so that a slow reader costs no memory and no planning.
// Access asks who a caller is and whether he may watch the namespace; only another copy of the decider, known by its
// certificate, is not asked for that right, because it has asked for it itself.
//
// The package must not plan, keep history, or know how Kubernetes answers a review: the decider gives it a Reviewer.
package observations
