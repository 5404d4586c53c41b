package admission

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

func deploymentOf(roles ...target.Role) *target.Deployment {
	return &target.Deployment{Namespace: "ns", Name: "m1", UID: "d1", Roles: roles}
}

func roleOf(name string, kind observe.RoleKind) target.Role {
	return target.Role{Name: name, Kind: kind, Replicas: 1, Size: 1}
}

var pair = deploymentOf(roleOf("encode", observe.Encode), roleOf("prefill", observe.Prefill), roleOf("decode", observe.Decode))

// banded renders a policy whose roles have the bounds "name:min:max" and the ratios "a/b:min:max".
func banded(roles, ratios string) string {
	var bounds, bands, names []string
	for _, role := range strings.Fields(roles) {
		f := strings.Split(role, ":")
		names = append(names, f[0])
		bounds = append(bounds, fmt.Sprintf(`{"name": %q, "minReplicas": %s, "maxReplicas": %s}`, f[0], f[1], f[2]))
	}
	for _, ratio := range strings.Fields(ratios) {
		f := strings.Split(ratio, ":")
		over, under, _ := strings.Cut(f[0], "/")
		bands = append(bands, fmt.Sprintf(`{"numeratorRole": %q, "denominatorRole": %q, "min": %q, "max": %q}`, over, under, f[1], f[2]))
	}
	return scalerObject(`{"targetRef": {"name": "m1"}, "roles": [` + strings.Join(bounds, ",") + `], "ratios": [` + strings.Join(bands, ",") +
		`], "algorithm": ` + proportional(names...) + `}`)
}

// policy renders a spec over roles of 1 to 4 replicas.
func policy(roles, ratios, algorithm string) string {
	var bounds []string
	for _, role := range strings.Fields(roles) {
		bounds = append(bounds, fmt.Sprintf(`{"name": %q, "minReplicas": 1, "maxReplicas": 4}`, role))
	}
	var coupled []string
	for _, ratio := range strings.Fields(ratios) {
		over, under, _ := strings.Cut(ratio, "/")
		coupled = append(coupled, fmt.Sprintf(`{"numeratorRole": %q, "denominatorRole": %q, "target": "1"}`, over, under))
	}
	return scalerObject(`{"targetRef": {"name": "m1"}, "roles": [` + strings.Join(bounds, ",") + `], "ratios": [` + strings.Join(coupled, ",") +
		`], "algorithm": ` + algorithm + `}`)
}

func proportional(roles ...string) string {
	var targets []string
	for _, role := range roles {
		targets = append(targets, fmt.Sprintf(`{"name": %q, "target": "8"}`, role))
	}
	return `{"type": "Proportional", "proportional": {"metric": "QueueDepth", "tolerance": "0.1", "roleTargets": [` + strings.Join(targets, ",") + `]}}`
}

func tokens(fields string) string {
	return `{"type": "TokenThroughput", "tokenThroughput": {"stableWindowSeconds": 180, "panicWindowSeconds": 60` + fields + `}}`
}

func predictive(nested, fields string) string {
	return `{"type": "Predictive", "predictive": {"tokenThroughput": {"stableWindowSeconds": 180, "panicWindowSeconds": 60` + nested + `}` + fields + `}}`
}

const (
	prefillTokens = `, "prefillTargetTokensPerSecond": "2000"`
	decodeTokens  = `, "decodeTargetTokensPerSecond": "800"`
)

func TestPoliciesAreJudged(t *testing.T) {
	unmanaged, elastic := roleOf("server", observe.Server), roleOf("server", observe.Server)
	unmanaged.Unmanaged, elastic.ElasticEP = true, true
	long := roleOf("server", observe.Server)
	long.Size = 2
	named := deploymentOf(long)
	named.Name = strings.Repeat("m", 52)
	colliding := deploymentOf(long, roleOf("server-r3", observe.Server))
	bigger := roleOf("server", observe.Server)
	bigger.Replicas = 9
	for name, test := range map[string]struct {
		object   string
		live     *target.Deployment
		fields   []string // broken ones, in order; none: allowed
		sentence string   // part of the message or of the warnings
	}{
		"every role has a target":             {object: policy("prefill decode", "", proportional("prefill", "decode"))},
		"a role is coupled over the line":     {object: policy("prefill decode", "decode/prefill", proportional("prefill"))},
		"a role is coupled under the line":    {object: policy("prefill decode", "prefill/decode", proportional("prefill"))},
		"a role is not coupled":               {object: policy("prefill decode", "", proportional("prefill")), fields: []string{"spec.roles[1].name"}, sentence: "nothing sizes this role"},
		"a role is coupled through a third":   {object: policy("encode prefill decode", "encode/prefill prefill/decode", proportional("decode")), fields: []string{"spec.roles[0].name"}},
		"two roles are coupled to each other": {object: policy("a b c", "a/b", proportional("c")), fields: []string{"spec.roles[0].name", "spec.roles[1].name"}},

		"a ratio that the bounds can satisfy": {object: banded("a:1:9 b:1:3", "a/b:0.3333333333:0.3333333333")},
		"a ratio out of reach of the bounds": {object: banded("a:8:9 b:1:3", "a/b:1:2"), fields: []string{"spec.ratios[0]"},
			sentence: `"a/b within [1, 2]": no replica counts within the bounds of a (8 to 9) and b (1 to 3) are in this ratio, which can only be 2.67 to 9 there`},
		"ratios that contradict each other, beside one that does not": {object: banded("a:1:9 b:1:9 c:1:9", "c/b:0.1:9 a/b:2:3 b/c:2:3 c/a:1:2"), fields: []string{"spec.ratios[1]"},
			sentence: "the bounds of a (1 to 9), b (1 to 9) and c (1 to 9) satisfy this ratio together with b/c within [2, 3] (spec.ratios[2]) and c/a within [1, 2] (spec.ratios[3])"},
		"ratios too tangled to be judged":          {object: banded("a:1:1024 b:1:1024 c:1:1024 d:1:1024", "a/b:1:2 b/c:1:2 c/d:1:2 d/a:1.01:2"), sentence: "within the limit of the search"},
		"the present counts are outside of a band": {object: banded("a:1:9 b:1:9", "a/b:2:3"), live: deploymentOf(roleOf("a", observe.Server), roleOf("b", observe.Server)), sentence: "the present counts of roles a and b, 1 and 1, are not a/b within [2, 3] (spec.ratios[0])"},

		"capacities are not judged without the target":    {object: policy("prefill decode", "", tokens(prefillTokens))},
		"a pair with both capacities":                     {object: policy("encode prefill decode", "encode/prefill", tokens(prefillTokens+decodeTokens)), live: pair},
		"a pair without decode's":                         {object: policy("encode prefill decode", "encode/prefill", tokens(prefillTokens)), live: pair, fields: []string{"spec.algorithm.tokenThroughput.decodeTargetTokensPerSecond"}, sentence: "role decode is of kind Decode"},
		"a pair under a server's capacity":                {object: policy("encode prefill decode", "decode/encode", tokens(`, "serverTargetTokensPerSecond": 1`)), live: pair, fields: []string{"spec.algorithm.tokenThroughput.prefillTargetTokensPerSecond", "spec.algorithm.tokenThroughput.decodeTargetTokensPerSecond"}},
		"an encode role without a ratio":                  {object: policy("encode prefill decode", "prefill/decode", tokens(prefillTokens+decodeTokens)), live: pair, fields: []string{"spec.roles[0].name"}, sentence: "add a ratio between it and a Prefill or Decode role"},
		"an encode role coupled to a server":              {object: policy("encode server", "encode/server", tokens(`, "serverTargetTokensPerSecond": 1`)), live: deploymentOf(roleOf("encode", observe.Encode), roleOf("server", observe.Server)), fields: []string{"spec.roles[0].name"}},
		"a role of unknown kind under tokens":             {object: policy("server", "", tokens(`, "serverTargetTokensPerSecond": 1`)), live: deploymentOf(roleOf("server", "")), fields: []string{"spec.roles[0].name"}, sentence: "use the algorithm Proportional"},
		"a role of unknown kind under Proportional":       {object: policy("server", "", proportional("server")), live: deploymentOf(roleOf("server", ""))},
		"an encode role with a target of its own":         {object: policy("encode", "", proportional("encode")), live: deploymentOf(roleOf("encode", observe.Encode))},
		"a forecast with fallback and capacity":           {object: policy("prefill", "", predictive(prefillTokens, `, "prefillTokenCapacityPerReplica": 1`)), live: deploymentOf(roleOf("prefill", observe.Prefill))},
		"a forecast without fallback":                     {object: policy("server", "", predictive("", `, "serverTokenCapacityPerReplica": 1`)), live: deploymentOf(roleOf("server", observe.Server)), fields: []string{"spec.algorithm.predictive.tokenThroughput.serverTargetTokensPerSecond"}},
		"a forecast with the fallback alone":              {object: policy("decode", "", predictive(decodeTokens, "")), live: deploymentOf(roleOf("decode", observe.Decode)), fields: []string{"spec.algorithm.predictive.decodeTokenCapacityPerReplica"}},
		"several roles of one kind, one missing capacity": {object: policy("a b", "", tokens(prefillTokens)), live: deploymentOf(roleOf("a", observe.Server), roleOf("b", observe.Server)), fields: []string{"spec.algorithm.tokenThroughput.serverTargetTokensPerSecond"}},

		"a role that the target does not have":    {object: policy("server decode", "", proportional("server", "decode")), live: deploymentOf(roleOf("server", observe.Server)), fields: []string{"spec.roles[1].name"}, sentence: "ModelDeployment m1 has no such role, it has server: correct the name"},
		"a role with its own command":             {object: policy("server", "", proportional("server")), live: deploymentOf(unmanaged), fields: []string{"spec.roles[0].name"}, sentence: "sets its own command"},
		"a role of elastic width":                 {object: policy("server", "", proportional("server")), live: deploymentOf(elastic), fields: []string{"spec.roles[0].name"}, sentence: "sets elasticEp"},
		"names too long at the maximum":           {object: policy("server", "", proportional("server")), live: named, fields: []string{"spec.roles[0].maxReplicas"}, sentence: "-server-r3-m1 has 65 characters, 63 are allowed"},
		"a Service's name taken at the maximum":   {object: policy("server server-r3", "", proportional("server", "server-r3")), live: colliding, fields: []string{"spec.roles[0].maxReplicas"}, sentence: "the Service of role server-r3"},
		"everything wrong is said at once":        {object: policy("a server", "", proportional("a")), live: deploymentOf(unmanaged), fields: []string{"spec.roles[1].name", "spec.roles[0].name", "spec.roles[1].name"}},
		"a role of the target without bounds":     {object: policy("decode", "", proportional("decode")), live: pair, sentence: "no bounds for encode, prefill"},
		"a count outside of the bounds":           {object: policy("server", "", proportional("server")), live: deploymentOf(bigger), sentence: "the present count of role server, 9, is outside of 1 to 4"},
		"windows in an order that does not help":  {object: policy("a", "", `{"type": "TokenThroughput", "tokenThroughput": {"stableWindowSeconds": 60, "panicWindowSeconds": 60}}`), sentence: "panicWindowSeconds (60) is not shorter"},
		"a priority list under another policy":    {object: queueDepth(`"rebalance": {"policy": "Opposing", "priority": ["server"]}, `), sentence: "has no effect"},
		"the policy Priority with nobody to give": {object: queueDepth(`"rebalance": {"policy": "Priority"}, `), sentence: "no role can give or take"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(cluster{target: func(namespace, name string) (*target.Deployment, error) {
				require.Equal(t, "ns/m1", namespace+"/"+name)
				return test.live, nil
			}})
			r := request(admissionv1.Create, workerv1.Kind, test.object, "")
			r.DryRun = new(true)
			response := f.send(t, ValidateScalerPath, r)
			require.Equal(t, len(test.fields) == 0, response.Allowed, "%v", response.Result)
			if response.Allowed {
				require.Contains(t, strings.Join(response.Warnings, "\n"), test.sentence)
				require.Equal(t, test.sentence == "", len(response.Warnings) == 0, "%v", response.Warnings)
				return
			}
			require.Equal(t, int32(http.StatusUnprocessableEntity), response.Result.Code)
			require.Contains(t, response.Result.Message, test.sentence)
			var fields []string
			for _, cause := range response.Result.Details.Causes {
				fields = append(fields, cause.Field)
			}
			require.Equal(t, test.fields, fields)
		})
	}
}

func TestWhenAScalerIsJudged(t *testing.T) {
	good, bad := policy("server", "", proportional("server")), policy("server", "", proportional("other"))
	deleting := func(object string) string {
		return strings.Replace(object, `"name": "s1"`, `"name": "s1", "deletionTimestamp": "2026-01-01T00:00:00Z"`, 1)
	}
	with := func(object, field string) string {
		return strings.Replace(object, `"targetRef": {"name": "m1"}`, `"targetRef": {"name": "m1"}, `+field, 1)
	}
	down := func(string, string) (*target.Deployment, error) { return nil, errDown }
	unmanaged := roleOf("server", observe.Server)
	unmanaged.Unmanaged = true
	changed := func(string, string) (*target.Deployment, error) { return deploymentOf(unmanaged), nil }
	for name, test := range map[string]struct {
		operation admissionv1.Operation
		old, new  string
		target    func(string, string) (*target.Deployment, error) // nil: must not be read
		code      int32
	}{
		"created, the target absent":                      {operation: admissionv1.Create, new: good, target: noTarget},
		"created, the target not readable":                {operation: admissionv1.Create, new: good, target: down, code: 503},
		"updated to a broken policy":                      {operation: admissionv1.Update, old: good, new: bad, target: noTarget, code: 422},
		"updated, a broken policy left alone":             {operation: admissionv1.Update, old: bad, new: strings.Replace(bad, `"name": "s1"`, `"name": "s1", "finalizers": []`, 1)},
		"updated, only the status":                        {operation: admissionv1.Update, old: bad, new: strings.Replace(bad, `"spec"`, `"status": {"observedGeneration": 1}, "spec"`, 1)},
		"updated under deletion, whatever the spec":       {operation: admissionv1.Update, old: good, new: deleting(bad)},
		"updated over an old one that cannot be read":     {operation: admissionv1.Update, old: `{"kind": "ModelDeploymentScaler", "spec": {"mode": 1}}`, new: good, target: noTarget},
		"updated while the target has become unmanaged":   {operation: admissionv1.Update, old: good, new: with(good, `"mode": "Active"`), target: changed, code: 422},
		"suspended while the target has become unmanaged": {operation: admissionv1.Update, old: good, new: with(good, `"suspend": true`)},
		"suspended, whatever the policy":                  {operation: admissionv1.Update, old: bad, new: with(bad, `"suspend": true`)},
		"put into Shadow, whatever the policy":            {operation: admissionv1.Update, old: with(bad, `"mode": "Active"`), new: with(bad, `"mode": "Shadow"`)},
		"resumed in Shadow, the policy broken":            {operation: admissionv1.Update, old: with(bad, `"mode": "Active", "suspend": true`), new: with(bad, `"mode": "Shadow"`), target: noTarget, code: 422},
		"suspended and broken in one write":               {operation: admissionv1.Update, old: good, new: with(bad, `"suspend": true`), code: 422},
		"created suspended over an unmanaged target":      {operation: admissionv1.Create, new: with(good, `"suspend": true`), target: changed, code: 422},
		"deleted":                    {operation: admissionv1.Delete, old: good, code: 400},
		"garbage":                    {operation: admissionv1.Create, new: `"x"`, code: 400},
		"a spec that cannot be read": {operation: admissionv1.Create, new: scalerObject(`{"mode": 1}`), code: 400},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(cluster{target: test.target})
			response := f.send(t, ValidateScalerPath, request(test.operation, workerv1.Kind, test.new, test.old))
			require.Equal(t, test.code == 0, response.Allowed, "%v", response.Result)
			if test.code != 0 {
				require.Equal(t, test.code, response.Result.Code)
			}
		})
	}
}

// Nothing that is sent makes the scaler's webhooks panic, and what passes validation can be read.
func FuzzScaler(f *testing.F) {
	f.Add([]byte(queueDepth("")))
	f.Add([]byte(policy("prefill decode", "prefill/decode", tokens(prefillTokens))))
	f.Add([]byte(scalerObject(`{"targetRef": null, "roles": [null], "algorithm": {"predictive": {"qLevel": 1e-300}}}`)))
	f.Fuzz(func(t *testing.T, object []byte) {
		r := request(admissionv1.Create, workerv1.Kind, "", "")
		r.Object = runtime.RawExtension{Raw: object}
		require.True(t, mutateScaler(t.Context(), r).response.Allowed)
		if v := (scalerValidator{cluster{target: noTarget}}).judge(t.Context(), r); v.response.Allowed {
			_, _, err := readScaler(object)
			require.NoError(t, err)
		}
	})
}
