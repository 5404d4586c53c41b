package decide_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/scenario"
)

// Two deciders see the same; one of them is replaced once by a leader that knows the status alone, as it was just written. As long
// as both plan on the same counts, the new leader never shrinks what the old one would keep, and never grows beyond it where the
// recommendation is of this very pass (Proportional: the averages of a restarted window may be higher). What a status that is up
// to a minute old does not know of (D36) is bridged like any gap (D24).
func TestARestartNeitherShrinksEarlierNorGrowsFurther(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		steady, restarted := twins(t)
		earliest, stored, done := rapid.IntRange(1, 60).Draw(t, "restart"), false, false
		for pass := range earliest + 60 {
			events := steady.observe(t)
			a, err := steady.run.Step(steady.at, events...)
			require.NoError(t, err)
			now := !done && stored && pass >= earliest
			b, err := restarted.run.Step(steady.at, append(events, scenario.Event{Restart: now})...)
			require.NoError(t, err)
			steady.at += steady.every
			stored, done = b.StatusWritten, done || now
			if done {
				compareRestarted(t, steady.spec.Algorithm.Type, a, b)
				compared++
			}
			if !sameCounts(a.After, b.After) {
				return
			}
		}
	})
	require.Positive(t, compared)
}

func twins(t *rapid.T) (steady, restarted *randomRun) {
	spec, roles := randomPolicy(t)
	workerv1.Default(&spec)
	setup := scenario.Setup{Spec: spec, Target: scenario.Target{Roles: roles}, Every: 15, Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		World: scenario.World{Admit: randomDelay(t, "admit"), Ready: randomDelay(t, "ready"), Retire: randomDelay(t, "retire")}}
	made := func() *randomRun {
		return &randomRun{run: scenario.NewRun(setup), every: 15, spec: spec, readings: map[string]scenario.Reading{}, sane: true}
	}
	return made(), made()
}

func compareRestarted(t *rapid.T, algorithm workerv1.AlgorithmType, a, b scenario.Pass) {
	grows := false
	for role, current := range a.Current {
		grows = grows || a.After[role] > current
	}
	for role, current := range b.Current {
		why := func() string { return role + ": " + traces(a, b) }
		if b.After[role] < current && !grows { // growth of another role would only make a shrink wait (D26)
			require.GreaterOrEqual(t, b.After[role], a.After[role], "shrinks earlier: %s", why())
		}
		if b.After[role] > current && algorithm == workerv1.AlgorithmProportional {
			require.LessOrEqual(t, b.After[role], max(a.After[role], current), "grows further: %s", why())
		}
	}
}

func traces(a, b scenario.Pass) string {
	return fmt.Sprintf("at %d: steady %q %v, restarted %q %v", a.At, a.Decision.Hold, a.Decision.Trace, b.Decision.Hold, b.Decision.Trace)
}

func sameCounts(a, b scenario.Vector) bool {
	for role, count := range a {
		if b[role] != count {
			return false
		}
	}
	return true
}
