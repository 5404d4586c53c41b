//go:build chaos

package decider

import (
	"os"
	"time"
)

// step makes the wall clock of one Pod wrong from its start, by the duration in CLOCK_STEP_<name of the Pod>.
var step, _ = time.ParseDuration(os.Getenv("CLOCK_STEP_" + os.Getenv("POD_NAME")))
