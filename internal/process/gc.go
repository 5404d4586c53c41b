package process

import (
	"os"
	"runtime/debug"
)

// SetGCPercent says how much the heap may grow between collections, in percent, unless the user said it with GOGC.
func SetGCPercent(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
