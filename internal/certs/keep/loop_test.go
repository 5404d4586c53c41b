package keep

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestPassesAreMadeInTimeAndALastingFailureIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		passes, outcome := 0, errors.New("no such secret")
		l := NewLoop(func(context.Context) error { passes++; return outcome }, 5*time.Second, zap.New(core))
		require.ErrorContains(t, l.Err(), "not read yet")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		made := func(within time.Duration) int {
			before := passes
			time.Sleep(within)
			synctest.Wait()
			return passes - before
		}

		require.Equal(t, 5, made(9*time.Second), "a failure is tried again every two seconds")
		require.ErrorIs(t, l.Err(), outcome)
		require.Equal(t, 1, logs.Len())

		outcome = apierrors.NewConflict(schema.GroupResource{}, "s", errors.New("changed"))
		made(10 * time.Second)
		require.Equal(t, 1, logs.Len(), "who lost a race to write looks again, and says nothing")

		outcome = nil
		made(2 * time.Second)
		require.NoError(t, l.Err())
		require.Equal(t, 10, made(time.Minute), "what was changed has settled after the settle time")

		outcome = errors.New("no such secret")
		made(6 * time.Second)
		require.Equal(t, 2, logs.Len(), "it failed anew")

		outcome = nil
		made(2 * time.Second)
		quick := passes
		for range 100 {
			l.poke()
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		require.LessOrEqual(t, passes-quick, 7, "at most one a second, after a burst of five")
		cancel()
		require.NoError(t, <-ended)
	})
}
