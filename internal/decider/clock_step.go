//go:build !chaos

package decider

import "time"

// step of the wall clock: only builds for dev/chaos have one.
const step time.Duration = 0
