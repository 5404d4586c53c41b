package measure

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a measuring program until it ends or is interrupted, and exits with 1 when it fails or a limit is exceeded.
func Main(name string, run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
