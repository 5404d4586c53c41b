package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnOutageIsToldOnceForEachCauseAndTriedEveryFewSeconds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	causes := []string{"nobody answers", "nobody answers", "nobody leads", "nobody leads", "nobody leads", "nobody leads", "nobody answers"}
	errs, delays := &bytes.Buffer{}, []time.Duration{}
	f := follower{
		show: &plainLines{out: io.Discard, errs: errs},
		reach: func(context.Context) (connection, error) {
			return nil, errors.New(causes[len(delays)])
		},
		wait: func(d time.Duration) <-chan time.Time {
			passed := make(chan time.Time)
			close(passed)
			if delays = append(delays, d); len(delays) == len(causes) {
				cancel()
				return nil
			}
			return passed
		},
	}
	require.NoError(t, f.run(ctx))
	again := "; watching again as soon as there is an answer\n"
	require.Equal(t, "kubectl mds: nobody answers"+again+"kubectl mds: nobody leads"+again+"kubectl mds: nobody answers"+again, errs.String())
	for _, delay := range delays {
		require.GreaterOrEqual(t, delay, firstRetry)
		require.LessOrEqual(t, delay, 3*time.Second)
	}
}
