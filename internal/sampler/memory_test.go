package sampler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestOverItsLimitTheMemoryForgetsTheOldestOfAllRoles(t *testing.T) {
	m := newMemory(100, newMetrics(prometheus.NewRegistry()))
	for s := 0; s <= 1500; s += 15 {
		for role := range 3 {
			o := observedAt(s, 1)
			o.Key.Role = fmt.Sprint(role)
			m.add(o)
			require.LessOrEqual(t, m.kept, 100)
		}
	}
	kept := slices.Collect(m.within(replaySpan, start.Add(1500*time.Second)))
	require.Len(t, kept, m.kept)
	require.Greater(t, len(kept), 80)
	require.InDelta(t, 3*101-len(kept), testutil.ToFloat64(m.metrics.forgotten), 0)
	counts := map[string]int{}
	for _, o := range kept {
		counts[o.Key.Role]++
		require.False(t, o.End.Before(start.Add(1000*time.Second)), "of all roles the newest are left")
	}
	require.Len(t, counts, 3)
}

func TestARoleThatIsForgottenWholeLeavesNothing(t *testing.T) {
	m := newMemory(10, newMetrics(prometheus.NewRegistry()))
	gone := observedAt(0, 1)
	gone.Key.Role = "gone"
	m.add(gone)
	for s := 300; s <= 600; s += 15 {
		m.add(observedAt(s, 1))
	}
	require.Len(t, m.byRole, 1)
}
