package kube

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAnAPIServerThatIsAwayIsAskedUntilItIsBack(t *testing.T) {
	none := schema.GroupResource{Resource: "pods"}
	for name, tt := range map[string]struct {
		err   error
		waits bool
	}{
		"a connection that is refused": {errors.New("connect: connection refused"), true},
		"an API server that starts":    {apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "get", none, "", "", 0, false), true},
		"a watch that expired":         {apierrors.NewResourceExpired("too old"), false},
		"a right that is missing":      {apierrors.NewForbidden(none, "", nil), false},
		"a kind that is not served":    {apierrors.NewNotFound(none, ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				back := time.Now().Add(10 * time.Minute)
				answer, err := patiently(t.Context(), func() (string, error) {
					if time.Now().Before(back) {
						return "", tt.err
					}
					return "pods", nil
				})
				if !tt.waits {
					require.ErrorIs(t, err, tt.err)
					require.True(t, time.Now().Before(back), "it was not asked again")
					return
				}
				require.NoError(t, err)
				require.Equal(t, "pods", answer)
				require.LessOrEqual(t, time.Since(back), mostPatience*3/2)
			})
		})
	}
}

func TestNobodyAsksOnWhenTheEndHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began, away := time.Now(), errors.New("connect: connection refused")
		_, err := patiently(ctx, func() (string, error) { return "", away })
		require.ErrorIs(t, err, away)
		require.Equal(t, time.Minute, time.Since(began))
	})
}
