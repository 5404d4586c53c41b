package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// judged are the verdicts on the valid scenario with other expectations, which begin at line 9.
func judged(t *testing.T, expectations string) []Verdict {
	t.Helper()
	head, _, _ := strings.Cut(valid, "expect:")
	s := parsed(t, strings.Replace(head, "running: 20}}}", "running: 20}}}\n  - {at: 30, observe: {server: {running: 60}}}", 1)+expectations)
	passes, err := Play(s)
	require.NoError(t, err)
	return Judge(s, passes)
}

func TestEveryFieldCanFail(t *testing.T) {
	for name, tt := range map[string]struct{ field, wrong, right, miss string }{
		"current":            {"roles.server.current", "roles: {server: {current: 3}}", "roles: {server: {current: 2}}", "roles.server.current: expected 3, got 2"},
		"ready":              {"roles.server.ready", "roles: {server: {ready: {min: 3}}}", "roles: {server: {ready: {min: 2}}}", "roles.server.ready: expected at least 3, got 2"},
		"raw":                {"roles.server.raw", "roles: {server: {raw: {max: 5}}}", "roles: {server: {raw: {max: 6}}}", "roles.server.raw: expected at most 5, got 6"},
		"constrained":        {"roles.server.constrained", "roles: {server: {constrained: {min: 1, max: 2}}}", "roles: {server: {constrained: {min: 1, max: 6}}}", "roles.server.constrained: expected 1 to 2, got 6"},
		"reason":             {"roles.server.reason", "roles: {server: {reason: Panic}}", "roles: {server: {reason: Proportional}}", "roles.server.reason: expected Panic, got Proportional"},
		"one of two reasons": {"roles.server.reason", "roles: {server: {reason: [Panic, WithinTolerance]}}", "roles: {server: {reason: [Panic, Proportional]}}", "roles.server.reason: expected Panic or WithinTolerance, got Proportional"},
		"state":              {"roles.server.state", "roles: {server: {state: Idle}}", "roles: {server: {state: Fresh}}", "roles.server.state: expected Idle, got Fresh"},
		"commit":             {"commit", "commit: {server: 4}", "commit: {server: 6}", "commit: expected {server: 4}, got {server: 6}"},
		"no commit":          {"commit", "commit: none", "commit: {server: 6}", "commit: expected none, got {server: 6}"},
		"a condition":        {"conditions.Blocked", "conditions: {Blocked: True/PacingBounded}", "conditions: {Blocked: False/Ready}", "conditions.Blocked: expected True/PacingBounded, got False/Ready"},
		"pending":            {"pending", "pending: none", "pending: {baseline: {server: 2}, target: {server: 6}}", "pending: expected none, got from {server: 2} to {server: 6}"},
		"pending from":       {"pending", "pending: {baseline: {server: 1}, target: {server: 6}}", "pending: {baseline: {server: 2}, target: {server: 6}}", "pending: expected from {server: 1} to {server: 6}, got from {server: 2} to {server: 6}"},
		"rebalance":          {"rebalance", "rebalance: {reason: DonorRelease}", "rebalance: none", "rebalance: expected DonorRelease, got none"},
		"lastScaleDown":      {"lastScaleDown", "lastScaleDown: {role: server, ordinal: 3, outcome: Aborted}", "commit: {server: 6}", "lastScaleDown: expected server/3 Aborted, got /? "},
		"a filter":           {"predictor.server", "predictor: {server: {level: 1}}", "commit: {server: 6}", "predictor.server: expected a filter, got none"},
		"the status write":   {"statusWrite", "statusWrite: false", "statusWrite: true", "statusWrite: expected false, got true"},
	} {
		t.Run(name, func(t *testing.T) {
			v := judged(t, "expect:\n  - at: 30\n    "+tt.wrong+"\n  - at: 30\n    "+tt.right+"\n")
			require.Len(t, v, 2)
			require.False(t, v[0].Holds)
			require.Len(t, v[0].Misses, 1)
			require.Equal(t, tt.miss, v[0].Misses[0].String())
			require.Equal(t, Verdict{Line: 10, When: "at 30 s", Pass: 2, Misses: []Miss{{Line: 11, Field: tt.field, Expected: v[0].Misses[0].Expected, Got: v[0].Misses[0].Got}}}, v[0])
			require.Equal(t, Verdict{Line: 12, When: "at 30 s", Pass: -1, Holds: true}, v[1])
		})
	}
}

func TestWithinWantsItInTheStretchAndNotBefore(t *testing.T) {
	v := judged(t, `expect:
  - {within: [15, 45], commit: {server: 6}}
  - {within: [45, 60], commit: {server: 6}}
  - {within: [0, 15], roles: {server: {raw: 6}}, commit: {server: 6}}
  - {within: [15, 60], commit: none}
`)
	require.True(t, v[0].Holds)
	require.Equal(t, Miss{11, "within", "not before 45 s", "all of it at 30 s"}, v[1].Misses[0])
	require.Equal(t, 2, v[1].Pass)
	require.Len(t, v[2].Misses, 2)
	require.Equal(t, "within 0 to 15 s", v[2].When)
	require.Equal(t, Miss{13, "within", "not before 15 s", "all of it at 0 s"}, v[3].Misses[0])
}

func TestDuringWantsItInEveryPass(t *testing.T) {
	v := judged(t, `expect:
  - {during: [0, 15], commit: none}
  - {during: [0, 60], roles: {server: {raw: 2}}}
`)
	require.True(t, v[0].Holds)
	require.Equal(t, 2, v[1].Pass)
	require.Equal(t, 2, v[1].More, "at 45 and 60 too")
	require.Equal(t, "roles.server.raw: expected 2, got 6", v[1].Misses[0].String())
}

func TestAlwaysIsAboutAllPasses(t *testing.T) {
	v := judged(t, "always:\n  maxCommits: 0\n  roles:\n    server: {min: 2, max: 5}\n")
	require.Len(t, v, 2)
	require.Equal(t, Verdict{Line: 10, When: "always", Pass: -1, Misses: []Miss{{10, "maxCommits", "at most 0", "1"}}}, v[0])
	require.Equal(t, Verdict{Line: 12, When: "always", Pass: 2, Misses: []Miss{{12, "roles.server", "2 to 5", "6"}}}, v[1])
	for _, v := range judged(t, "always: {maxCommits: 1, roles: {server: {min: 2, max: 6}}}\n") {
		require.True(t, v.Holds)
	}
}

func TestFilterValuesHaveATolerance(t *testing.T) {
	require.True(t, near(1000, 1000.0009, 0))
	require.False(t, near(1000, 1000.0011, 0))
	require.True(t, near(0, 1e-9, 0))
	require.False(t, near(0, 2e-9, 0))
	require.True(t, near(10, 12, 2))
	require.False(t, near(10, 12.1, 2))
}

func TestEventsThatCannotBePlayedAreTold(t *testing.T) {
	for name, tt := range map[string]struct{ event, want string }{
		"an instance that is not there": {"admit: [server/7]", "p.yaml:7: event at 0: there is no instance server/7"},
		"a scaler that is none":         {"scaler: {modes: Active}", `p.yaml:7: event at 0: patching the scaler: unknown field "modes"`},
		"a target that is none":         {"target: {roles: [{name: server, replica: 3}]}", "p.yaml:7: event at 0: patching the target: "},
		"too many replicas":             {"target: {roles: [{name: server, replicas: 3000}]}", "patching the target: role server: replicas must be 0 to 1024"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Play(parsed(t, strings.Replace(valid, "observe:", tt.event+", observe:", 1)))
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestPlayingTwiceGivesTheSame(t *testing.T) {
	s := parsed(t, strings.Replace(valid, "expect:", "  - {at: 30, scaler: {roles: [{name: server, maxReplicas: 3}]}, observe: {server: {running: 90}}}\nexpect:", 1))
	first, err := Play(s)
	require.NoError(t, err)
	again, err := Play(s)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, Vector{"server": 3}, first[2].Commit())
}
