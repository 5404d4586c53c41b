package sampler

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func roleOf(deployment string, interval, age time.Duration) observe.Assignment {
	return observe.Assignment{Key: observe.RoleKey{Namespace: "ns", Deployment: deployment, UID: "uid-" + deployment}, Interval: interval, LastScrapeAge: age}
}

func TestARoleThatAnotherSamplerScrapedGoesOnFromThere(t *testing.T) {
	tests := []struct {
		name string
		age  time.Duration
		want time.Duration
	}{
		{"just now", 0, 15 * time.Second},
		{"ten seconds ago", 10 * time.Second, 5 * time.Second},
		{"longer ago than an interval", time.Minute, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCadence(roleOf("d", 15*time.Second, tt.age), start)
			require.Equal(t, tt.want, c.next.Sub(start))
			c.done(15*time.Second, c.next)
			require.Equal(t, tt.want+15*time.Second, c.next.Sub(start))
		})
	}
}

func TestRolesOfOneDeploymentShareAPhaseWheneverTheyCome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.IntRange(1, 300).Draw(t, "interval")) * time.Second
		deployment := rapid.String().Draw(t, "deployment")
		settled := func(delay time.Duration) time.Duration {
			now := start.Add(delay)
			c := newCadence(roleOf(deployment, interval, -1), now)
			require.LessOrEqual(t, c.next.Sub(now), min(interval, firstWithin))
			require.False(t, c.next.Before(now))
			first := c.next
			c.done(interval, c.next)
			require.GreaterOrEqual(t, c.next.Sub(first), interval)
			require.Less(t, c.next.Sub(first), 2*interval)
			return c.next.Sub(start) % interval
		}
		require.Equal(t, settled(0), settled(time.Duration(rapid.IntRange(0, 1e6).Draw(t, "later"))*time.Millisecond))
	})
}

func TestDeploymentsAreSpreadOverTheInterval(t *testing.T) {
	quarters := map[time.Duration]int{}
	for i := range 400 {
		c := newCadence(roleOf(fmt.Sprint(i), 15*time.Second, -1), start)
		quarters[c.next.Sub(start)*4/(15*time.Second)]++
	}
	for q := range time.Duration(4) {
		require.InDelta(t, 100, quarters[q], 50, "quarter %d", q)
	}
}

func TestMissedPassesAreLeftOutAndThePhaseStays(t *testing.T) {
	c := newCadence(roleOf("d", 15*time.Second, 15*time.Second), start)
	c.done(15*time.Second, start.Add(50*time.Second))
	require.Equal(t, 60*time.Second, c.next.Sub(start))
}

func TestAnotherIntervalCountsFromTheLastPass(t *testing.T) {
	c := newCadence(roleOf("d", 60*time.Second, 60*time.Second), start)
	c.done(60*time.Second, start)
	c.changed(15*time.Second, start.Add(5*time.Second))
	require.Equal(t, 15*time.Second, c.next.Sub(start))
	c.changed(10*time.Second, start.Add(20*time.Second))
	require.Equal(t, 20*time.Second, c.next.Sub(start))
}

func TestPodsKeepTheirPlaceInTheFirstTenthOfTheInterval(t *testing.T) {
	places := map[time.Duration]bool{}
	for i := range 64 {
		pod := observe.Pod{UID: fmt.Sprint("uid-", i)}
		d := offset(pod, 15*time.Second)
		require.Equal(t, d, offset(pod, 15*time.Second))
		require.Less(t, d, 1500*time.Millisecond)
		places[d/(100*time.Millisecond)] = true
	}
	require.Greater(t, len(places), 10)
}
