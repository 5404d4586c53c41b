package decider

import "time"

// clock is the planner's time: the start of the process plus monotonic elapsed time, so that a stepped wall clock acts only
// at the next start (D58).
type clock struct{ start time.Time }

func newClock() clock { return clock{time.Now()} }

func (c clock) now() time.Time { return c.start.Round(0).Add(step + time.Since(c.start)) }
