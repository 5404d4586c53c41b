package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// valid is a scenario that each test changes in one place.
const valid = `name: valid
scaler:
  roles: [{name: server, maxReplicas: 16}]
  algorithm: {proportional: {metric: QueueDepth, roleTargets: [{name: server, target: "10"}]}}
target: {roles: [{name: server, replicas: 2}]}
timeline:
  - {at: 0, observe: {server: {running: 20}}}
expect:
  - {at: 0, commit: none}
`

func parsed(t *testing.T, text string) *Scenario {
	t.Helper()
	s, err := Parse("p.yaml", []byte(text))
	require.NoError(t, err)
	return s
}

func TestMistakesAreToldWithFileAndLine(t *testing.T) {
	for name, tt := range map[string]struct{ old, new, want string }{
		"a field at the top that does not exist":    {"timeline:", "timelin:", `p.yaml:6: unknown field "timelin"`},
		"a field of an event":                       {"observe:", "observes:", `p.yaml:7: unknown field "observes"`},
		"a field of a reading":                      {"running:", "ran:", `p.yaml:7: unknown field "ran"; there are running, waiting`},
		"a role without a reading":                  {"{server: {running: 20}}", "{server}", `p.yaml:7: observe: role server has no fields`},
		"a field of the scaler":                     {"metric:", "metrik:", `p.yaml:4: scaler: unknown field "algorithm.proportional.metrik"`},
		"a field of a role's bounds":                {"maxReplicas:", "max:", `p.yaml:3: scaler: unknown field "roles[0].max"`},
		"a field of the status":                     {"target: {roles", "status: {lastcommit: {}}\ntarget: {roles", `p.yaml:5: status: unknown field "lastcommit"`},
		"a quantity that is none":                   {`"10"`, `ten`, `p.yaml:3: scaler: quantities must match`},
		"a field of a range":                        {"commit: none", "roles: {server: {raw: {mn: 2}}}", `p.yaml:9: unknown field "mn"; there are min, max`},
		"a count that is none":                      {"commit: none", "roles: {server: {raw: two}}", `p.yaml:9: "two" is neither a count nor {min, max}`},
		"a delay that is none":                      {"timeline:", "world: {admit: soon}\ntimeline:", `p.yaml:6: "soon" is no time in seconds, nor never`},
		"a negative delay":                          {"timeline:", "world: {admit: -1}\ntimeline:", `p.yaml:6: "-1" is no time in seconds`},
		"a role that the target does not have":      {"observe: {server", "observe: {servr", `p.yaml:7: "servr" is no role of the target: it has server`},
		"a commit of another role":                  {"commit: none", "commit: {servr: 2}", `p.yaml:9: "servr" is no role of the target`},
		"an expectation between passes":             {"- {at: 0, commit", "- {at: 10, commit", `p.yaml:9: there is no pass in 10 to 10: passes are every 15 s from 0 to 15`},
		"an expectation after the end":              {"expect:\n  - {at: 0", "until: 15\nexpect:\n  - {at: 30", `p.yaml:10: there is no pass in 30 to 30: passes are every 15 s from 0 to 15`},
		"a stretch that ends before it begins":      {"at: 0, commit", "within: [30, 15], commit", `p.yaml:9: there is no pass in 30 to 15`},
		"two times at once":                         {"at: 0, commit", "at: 0, within: [0, 15], commit", `p.yaml:9: give one of at: T, within: [FROM, TO] and during: [FROM, TO]`},
		"no time at all":                            {"at: 0, commit", "commit", `p.yaml:9: give one of at`},
		"an expectation of nothing":                 {"at: 0, commit: none", "at: 0", `p.yaml:9: nothing is expected`},
		"no name":                                   {"name: valid\n", "", `name is missing`},
		"no role":                                   {"[{name: server, replicas: 2}]", "[]", `p.yaml:5: target.roles is missing`},
		"a role twice":                              {"[{name: server, replicas: 2}]", "[{name: server}, {name: server}]", `needs a name of its own, not "server"`},
		"more replicas than there may be":           {"replicas: 2}", "replicas: 2000000}", `role server: replicas must be 0 to 1024`},
		"an event before the start":                 {"- {at: 0, observe", "- {at: -1, observe", `p.yaml:7: at must be 0 to`},
		"an event after the end":                    {"expect:", "  - {at: 90}\nuntil: 30\nexpect:", `p.yaml:8: the event at 90 comes after the last pass at 30`},
		"an instance that cannot be one":            {"observe:", "admit: [server-1], observe:", `p.yaml:7: "server-1" is not an instance, as role/ordinal`},
		"a state of retirement that does not exist": {"observe:", "retirement: {role: server, ordinal: 1, state: Gone}, observe:", `p.yaml:7: "Gone" is not one of Finished, Admitted`},
		"a key twice":                               {"name: valid", "name: valid\nname: again", `p.yaml:2: mapping key "name" already defined at line 1`},
		"text that is no YAML":                      {"name: valid", "name: [", `p.yaml:`},
		"passes without number":                     {"expect:", "until: 900000000\nevery: 1\nexpect:", `would be one of more than 100000`},
		"a manifest":                                {"name: valid", "kind: ModelDeploymentScaler", `p.yaml: this is a manifest of kind ModelDeploymentScaler, not a scenario`},
		"a second document":                         {"  - {at: 0, commit: none}", "  - {at: 0, commit: none}\n---\nname: two", `p.yaml: one file holds one scenario`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(valid, tt.old, tt.new, 1)
			require.NotEqual(t, valid, text, "the test changes nothing")
			_, err := Parse("p.yaml", []byte(text))
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err := Parse("p.yaml", nil)
	require.EqualError(t, err, "p.yaml: the file holds no scenario")
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	text := strings.NewReplacer("observe:", "observes:", "commit: none", "comit: none").Replace(valid)
	_, err := Parse("p.yaml", []byte(text))
	require.EqualError(t, err, "p.yaml:7: unknown field \"observes\"\np.yaml:9: unknown field \"comit\"")
}

func TestDefaultsAreThoseOfAdmissionButForTheMode(t *testing.T) {
	s := parsed(t, valid)
	require.EqualValues(t, "Active", s.spec.Mode)
	require.EqualValues(t, "Proportional", s.spec.Algorithm.Type)
	require.EqualValues(t, 1, s.spec.Roles[0].MinReplicas)
	require.Equal(t, 15, s.Every)
	require.Equal(t, "2026-01-01T00:00:00Z", s.Start.Format("2006-01-02T15:04:05Z07:00"))
	require.Equal(t, 20, parsed(t, strings.Replace(valid, "  roles: [{name: server, max", "  sampling: {intervalSeconds: 20}\n  roles: [{name: server, max", 1)).Every)
}

func TestReadingsLastUntilTheyAreChanged(t *testing.T) {
	s := parsed(t, strings.Replace(valid, "expect:", `  - {at: 30, observe: {server: {ttft: null, waiting: 3}}}
  - {at: 15, observe: {server: {ttft: 100, answered: 1}}}
expect:`, 1))
	latency := 100.0
	answered := 1
	require.Equal(t, Reading{Running: 20}, s.Timeline[0].Observe["server"])
	require.Equal(t, Reading{Running: 20, TTFT: &latency, Answered: &answered}, s.Timeline[1].Observe["server"], "events are sorted by time")
	require.Equal(t, Reading{Running: 20, Waiting: 3, Answered: &answered}, s.Timeline[2].Observe["server"])
}

func TestTheLastPassIsTheLastThatMatters(t *testing.T) {
	for name, tt := range map[string]struct {
		more string
		want int
	}{
		"nothing but the start":         {"", 0},
		"an event between two passes":   {"timeline: [{at: 20}]\n", 30},
		"the end of a stretch":          {"expect: [{within: [0, 50], commit: none}]\n", 60},
		"until, whatever else there is": {"timeline: [{at: 20}]\nuntil: 100\n", 100},
	} {
		t.Run(name, func(t *testing.T) {
			head, _, _ := strings.Cut(valid, "timeline:")
			require.Equal(t, tt.want, parsed(t, head+tt.more).last())
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(valid))
	f.Add([]byte(strings.Replace(valid, "observe:", `scaler: {mode: Shadow}, target: {roles: [{name: server, replicas: 3}]}, binding: {term: 2}, observe:`, 1)))
	f.Add([]byte("name: [\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("f.yaml", data)
		if err != nil || s.last()/s.Every > 200 {
			return
		}
		passes, err := Play(s)
		if err != nil {
			return
		}
		require.Len(t, Judge(s, passes), len(s.Expect)+len(s.Always.Roles)+map[bool]int{true: 1}[s.Always.MaxCommits != nil])
	})
}
