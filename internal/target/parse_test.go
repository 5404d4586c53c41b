package target

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// object decodes JSON as the API machinery does.
func object(t *testing.T, json string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, u.UnmarshalJSON([]byte(json)))
	return u
}

func TestParseReadsWhatScalingNeeds(t *testing.T) {
	d, err := Parse(object(t, `{
		"apiVersion": "worker.gpustack.ai/v1", "kind": "ModelDeployment",
		"metadata": {"namespace": "ns", "name": "m1", "uid": "u1", "generation": 4, "resourceVersion": "77",
			"annotations": {"a": "b"}, "deletionTimestamp": "2026-01-02T03:04:05Z"},
		"spec": {"engine": {"name": "vLLM"}, "roles": [
			{"name": "encode", "kind": "Encode", "replicas": 2, "size": 3, "instanceType": "h100"},
			{"name": "server"},
			{"name": "own", "kind": "", "command": ["serve"], "replicas": 0},
			{"name": "wide", "kind": "Server", "elasticEp": {"width": 4}},
			{"name": "odd", "kind": "Oracle", "command": []}]},
		"status": {"retirement": {"roleName": "encode", "replicaOrdinal": 1, "observedGeneration": 3, "state": "Draining",
			"targetWorkloadUID": "w1", "startedAt": "2026-01-02T03:04:00Z", "reason": "waiting"}}}`))
	require.NoError(t, err)
	require.Equal(t, Deployment{
		Namespace: "ns", Name: "m1", UID: "u1", Generation: 4, ResourceVersion: "77", Deleting: true,
		Annotations: map[string]string{"a": "b"}, Engine: "vLLM",
		Roles: []Role{
			{Name: "encode", Kind: observe.Encode, Replicas: 2, Size: 3, InstanceType: "h100"},
			{Name: "server", Kind: observe.Server, Replicas: 1, Size: 1},
			{Name: "own", Kind: observe.Server, Replicas: 0, Size: 1, Unmanaged: true},
			{Name: "wide", Kind: observe.Server, Replicas: 1, Size: 1, ElasticEP: true},
			{Name: "odd", Kind: "", Replicas: 1, Size: 1},
		},
		Retirement: &Retirement{Role: "encode", Ordinal: 1, State: RetirementDraining, ObservedGeneration: 3,
			StartedAt: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC), WorkloadUID: "w1", Reason: "waiting"},
	}, d)
	require.Equal(t, map[string]int32{"encode": 2, "server": 1, "own": 0, "wide": 1, "odd": 1}, d.Counts())
}

func TestParseRefusesRolesItCannotRead(t *testing.T) {
	for name, test := range map[string]struct{ roles, problem string }{
		"roles that are an object":         {`{"a": 1}`, "spec.roles is a map[string]interface {}, not a list"},
		"a role that is a string":          {`["server"]`, "spec.roles[0]: is a string, not an object"},
		"a role without a name":            {`[{"replicas": 1}]`, "spec.roles[0]: has no name"},
		"a name that is a number":          {`[{"name": 7}]`, "spec.roles[0]: has no name"},
		"one name twice":                   {`[{"name": "a"}, {"name": "a"}]`, `spec.roles[1]: the name "a" occurs twice`},
		"a count that is a string":         {`[{"name": "a", "replicas": "3"}]`, "spec.roles[0]: replicas is 3, not a count"},
		"a count below zero":               {`[{"name": "a", "replicas": -1}]`, "spec.roles[0]: replicas is -1, not a count"},
		"a count with a fraction":          {`[{"name": "a", "replicas": 1.5}]`, "spec.roles[0]: replicas is 1.5, not a count"},
		"a count that overflows":           {`[{"name": "a", "replicas": 4294967297}]`, "spec.roles[0]: replicas is 4294967297, not a count"},
		"a size that is a list":            {`[{"name": "a", "size": []}]`, "spec.roles[0]: size is [], not a count"},
		"a kind that is a number":          {`[{"name": "a", "kind": 1}]`, "spec.roles[0]: kind is a int64, not a string"},
		"the second role of two is broken": {`[{"name": "a"}, {"name": "b", "replicas": true}]`, "spec.roles[1]: replicas is true, not a count"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(object(t, `{"kind": "ModelDeployment", "metadata": {"namespace": "ns", "name": "m1"},
				"spec": {"roles": `+test.roles+`}}`))
			require.EqualError(t, err, "reading ModelDeployment ns/m1: "+test.problem)
		})
	}
}

func TestParseRefusesAnnotationsItCannotRead(t *testing.T) {
	for _, annotations := range []string{`"none"`, `["a"]`, `{"a": 1}`, `{"a": {}}`} {
		_, err := Parse(object(t, `{"kind": "ModelDeployment", "metadata": {"name": "m1", "annotations": `+annotations+`}}`))
		require.EqualError(t, err, "reading ModelDeployment /m1: metadata.annotations is not a map of strings", annotations)
	}
}

func TestParseReadsAWholeFloatAsACount(t *testing.T) {
	d, err := Parse(&unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"roles": []any{map[string]any{"name": "a", "replicas": float64(3), "size": nil}}},
	}})
	require.NoError(t, err)
	require.Equal(t, map[string]int32{"a": 3}, d.Counts())
}

func TestRetirementIsRunningUnlessItSaysHowItEnded(t *testing.T) {
	for name, test := range map[string]struct {
		json    string
		present bool
		running bool
	}{
		"no retirement":               {`{"status": {}}`, false, false},
		"a null retirement":           {`{"status": {"retirement": null}}`, false, false},
		"an admitted one":             {`{"status": {"retirement": {"state": "Admitted"}}}`, true, true},
		"an aborted one":              {`{"status": {"retirement": {"state": "Aborted"}}}`, true, false},
		"a completed one":             {`{"status": {"retirement": {"state": "Completed"}}}`, true, false},
		"one in a step not known yet": {`{"status": {"retirement": {"state": "HandingOver"}}}`, true, true},
		"one without a state":         {`{"status": {"retirement": {}}}`, true, true},
		"one that is a string":        {`{"status": {"retirement": "soon"}}`, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			u := object(t, `{"kind": "ModelDeployment", `+test.json[1:])
			r := parseRetirement(u.Object)
			require.Equal(t, test.present, r != nil)
			require.Equal(t, test.running, r.Running())
		})
	}
}

func TestRetirementWithAnUnreadableOrdinalNamesNoInstance(t *testing.T) {
	for _, ordinal := range []string{`"2"`, `-1`, `1.5`, `null`} {
		u := object(t, `{"kind": "ModelDeployment", "status": {"retirement": {"roleName": "a", "replicaOrdinal": `+ordinal+`}}}`)
		require.Empty(t, parseRetirement(u.Object).Role, ordinal)
	}
}

func TestWorkloadIsAdmittedOnlyWhenItSaysSoNow(t *testing.T) {
	owners := `"ownerReferences": [
		{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p1"},
		{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j1"}]`
	for name, test := range map[string]struct {
		status   string
		admitted bool
	}{
		"no status yet":            {`{}`, false},
		"quota reserved alone":     {`{"conditions": [{"type": "QuotaReserved", "status": "True"}]}`, false},
		"admitted":                 {`{"conditions": [{"type": "QuotaReserved", "status": "True"}, {"type": "Admitted", "status": "True"}]}`, true},
		"admitted once, evicted":   {`{"conditions": [{"type": "Admitted", "status": "False"}, {"type": "Evicted", "status": "True"}]}`, false},
		"conditions not in a list": {`{"conditions": "Admitted"}`, false},
		"a condition that is text": {`{"conditions": ["Admitted"]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := ParseWorkload(object(t, `{"kind": "Workload", "metadata": {"namespace": "ns", "name": "w", "uid": "w1", `+owners+`},
				"spec": {"podSets": [{"name": "decode", "count": 1}]}, "status": `+test.status+`}`))
			require.Equal(t, Workload{Namespace: "ns", Name: "w", UID: "w1", PodUIDs: []string{"p1"}, Role: "decode", PodName: "p", Admitted: test.admitted}, w)
		})
	}
}

func TestAWorkloadTellsTheDeploymentsItCanBeOf(t *testing.T) {
	for name, test := range map[string]struct {
		spec, pod string
		want      []string
	}{
		"one Pod an instance":              {`{"podSets": [{"name": "decode"}]}`, "llm-decode-x7k2p", []string{"llm"}},
		"several Pods":                     {`{"podSets": [{"name": "decode"}]}`, "llm-decode-r3-m1", []string{"llm"}},
		"a deployment named like its role": {`{"podSets": [{"name": "a"}]}`, "a-a-a-x7k2p", []string{"a", "a-a"}},
		"another role":                     {`{"podSets": [{"name": "prefill"}]}`, "llm-decode-x7k2p", nil},
		"no deployment before the role":    {`{"podSets": [{"name": "decode"}]}`, "-decode-x7k2p", nil},
		"several pod sets":                 {`{"podSets": [{"name": "decode"}, {"name": "more"}]}`, "llm-decode-x7k2p", nil},
		"no pod set":                       {`{}`, "llm-decode-x7k2p", nil},
		"a pod set that is text":           {`{"podSets": ["decode"]}`, "llm-decode-x7k2p", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := ParseWorkload(object(t, `{"kind": "Workload", "metadata": {"namespace": "ns", "name": "w", "uid": "w1", "ownerReferences": [
				{"apiVersion": "v1", "kind": "Pod", "name": "`+test.pod+`", "uid": "p1"}]}, "spec": `+test.spec+`}`))
			require.Equal(t, test.want, w.Deployments())
		})
	}
}
