package keep

import (
	"context"
	"errors"
	"sync/atomic"
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
		var passes atomic.Int64
		var outcome atomic.Pointer[error]
		fails := func(err error) { outcome.Store(&err) }
		missing := errors.New("no such secret")
		fails(missing)
		l := NewLoop(func(context.Context) error { passes.Add(1); return *outcome.Load() }, 5*time.Second, zap.New(core))
		require.ErrorContains(t, l.Err(), "not read yet")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		made := func(within time.Duration) int64 {
			before := passes.Load()
			time.Sleep(within)
			synctest.Wait()
			return passes.Load() - before
		}

		require.EqualValues(t, 5, made(9*time.Second), "a failure is tried again every two seconds")
		require.ErrorIs(t, l.Err(), missing)
		require.Equal(t, 1, logs.Len())

		fails(apierrors.NewConflict(schema.GroupResource{}, "s", errors.New("changed")))
		made(10 * time.Second)
		require.Equal(t, 1, logs.Len(), "who lost a race to write looks again, and says nothing")

		fails(nil)
		made(2 * time.Second)
		require.NoError(t, l.Err())
		require.EqualValues(t, 10, made(time.Minute), "what was changed has settled after the settle time")

		fails(missing)
		made(6 * time.Second)
		require.Equal(t, 2, logs.Len(), "it failed anew")

		fails(nil)
		made(2 * time.Second)
		quick := passes.Load()
		for range 100 {
			l.poke()
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		require.LessOrEqual(t, passes.Load()-quick, int64(7), "at most one a second, after a burst of five")
		cancel()
		require.NoError(t, <-ended)
	})
}
