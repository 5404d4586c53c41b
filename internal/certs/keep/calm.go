package keep

import (
	"bytes"
	"slices"
	"time"
)

// Calm measures for how long something has stayed the same, as far as this copy has seen.
type Calm struct {
	state [][]byte
	since time.Time
}

// For how long it has been as it is now; 0 while it is not good.
func (c *Calm) For(now time.Time, good bool, state ...[]byte) time.Duration {
	if !good || c.since.IsZero() || !slices.EqualFunc(c.state, state, bytes.Equal) {
		c.state, c.since = state, now
	}
	return now.Sub(c.since)
}
