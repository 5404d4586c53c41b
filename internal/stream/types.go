package stream

import (
	"iter"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// Assign changes the roles that a sampler owns. Parts that came in several messages are one Assign.
type Assign struct {
	// Revision grows with every assignment of a session.
	Revision int64
	// Full drops every role that is not in Upserts.
	Full bool
	// Upserts are complete descriptions of roles to observe from now on.
	Upserts []observe.Assignment
	// Removals are roles to forget.
	Removals []observe.RoleKey
}

// Epoch orders leaders: of one Lease by transitions, another Lease UID starts anew (D52).
type Epoch struct {
	LeaseUID    string
	Transitions int64
}

// Backend is what a Server serves: the sampler. SessionStarted, Apply and SessionEnded are called one at a time, in the
// order of events, and must return soon; Replay and Latest are called at any time. All of them may call Server.Publish.
type Backend interface {
	// SessionStarted is called when leader has opened a session, before any Apply of it. A newer session takes over from an
	// older one without SessionEnded in between.
	SessionStarted(leader string)
	// Apply takes an assignment over. It is valid: keys are complete, intervals positive, addresses and ports usable.
	Apply(Assign)
	// SessionEnded is called when a session ended and no newer one took over: there is no leader from now on.
	SessionEnded()
	// Replay yields the observations that have ended within span by now, role after role, those of each oldest first, Age as of
	// when they are yielded (D55): of the owned roles, and of those that were owned.
	Replay(span time.Duration) iter.Seq[observe.RoleObservation]
	// Latest lists the latest observation of every owned role that has one, Age as of now.
	Latest() []observe.RoleObservation
}
