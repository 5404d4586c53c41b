package admission

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/sentences"
	"gpustack.ai/model-deployment-scaler/internal/crd"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
	"gpustack.ai/model-deployment-scaler/manifests/crds"
)

var update = flag.Bool("update", false, "write what comes into the golden files")

const messagesFile = "testdata/messages.txt"

// Every refusal and warning that people can get, to be read as they read it: in the night, knowing little. It has to name the
// object, the cause and the way out.
func TestEveryMessageIsInTheGoldenFile(t *testing.T) {
	var text strings.Builder
	text.WriteString("What is answered to writes of scalers and deployments. Made by go test ./internal/admission -update.\n")
	for _, section := range []struct {
		title    string
		messages func(*testing.T, func(title, message string))
	}{
		{"Schema and rules of ModelDeploymentScaler (an API server says these, with the webhook or without)", schemaMessages},
		{"Policies", policyMessages},
		{"What cannot be judged", unjudgedMessages},
		{"The fence (the others are in internal/fence/testdata/refusals.txt)", fenceMessages},
		{"Requests that are no reviews", protocolMessages},
	} {
		fmt.Fprintf(&text, "\n## %s\n", section.title)
		section.messages(t, func(title, message string) { fmt.Fprintf(&text, "\n[%s]\n%s\n", title, strings.TrimSpace(message)) })
	}
	if *update {
		require.NoError(t, os.WriteFile(messagesFile, []byte(text.String()), 0o600))
	}
	golden, err := os.ReadFile(messagesFile)
	require.NoError(t, err)
	require.Equal(t, string(golden), text.String())
	require.NotContains(t, text.String(), "%!", "a broken format")
}

func TestNoSentenceOfTheCodeIsMissingFromTheGoldenFile(t *testing.T) {
	golden, err := os.ReadFile(messagesFile)
	require.NoError(t, err)
	found, err := sentences.In(".")
	require.NoError(t, err)
	require.Greater(t, len(found), 30, "the search finds the sentences")
	golden = append(golden, "the answer could not be written"...) // plain strings always can be
	require.Empty(t, sentences.Missing(found, string(golden)), "add a message to messages_test.go for each, and read it")
}

func TestNoRuleOfTheDefinitionIsMissingFromTheGoldenFile(t *testing.T) {
	golden, err := os.ReadFile(messagesFile)
	require.NoError(t, err)
	said := map[string]bool{}
	var definition apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.UnmarshalStrict(crds.Scalers, &definition))
	var walk func(s apiextensionsv1.JSONSchemaProps)
	walk = func(s apiextensionsv1.JSONSchemaProps) {
		for _, rule := range s.XValidations {
			if rule.MessageExpression == "" {
				said[rule.Message] = true
			}
			for i, part := range strings.Split(rule.MessageExpression, "'") { // every other one is a text
				if i%2 == 1 {
					said[part] = true
				}
			}
		}
		for _, child := range s.Properties {
			walk(child)
		}
		if s.Items != nil {
			walk(*s.Items.Schema)
		}
	}
	walk(definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
	require.Greater(t, len(said), 15, "the search finds the rules")
	for sentence := range said {
		if !strings.Contains(string(golden), sentence) { // Contains of require would print the whole file
			require.Fail(t, "nobody can read a rule", sentence)
		}
	}
}

// schemaCases are edits of a policy that schema and rules refuse. The tests of package webhook send them to a real API server.
type schemaCases struct {
	Base  json.RawMessage `json:"base"`
	Edits []struct {
		Title string          `json:"title"`
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value"`
	} `json:"edits"`
}

func schemaMessages(t *testing.T, say func(title, message string)) {
	body, err := os.ReadFile("testdata/schema.yaml")
	require.NoError(t, err)
	var cases schemaCases
	require.NoError(t, yaml.UnmarshalStrict(body, &cases))
	base := string(cases.Base)
	for _, c := range cases.Edits {
		operation := fmt.Sprintf(`[{"op": "add", "path": %q, "value": %s}]`, c.Path, c.Value)
		if c.Value == nil {
			operation = fmt.Sprintf(`[{"op": "remove", "path": %q}]`, c.Path)
		}
		say(c.Title, schemaMessage(t, stored(t, apply(t, operation, base), true), nil))
	}
	say("no type, and no mutating webhook to infer it", schemaMessage(t, stored(t, base, false), nil))
	other := strings.Replace(base, `"name":"chat"`, `"name":"m2"`, 1)
	say("another target", schemaMessage(t, stored(t, other, true), stored(t, base, true)))
}

// stored is a scaler with the defaults of webhook and schema.
func stored(t *testing.T, object string, webhook bool) map[string]any {
	t.Helper()
	if webhook {
		operations, err := Defaults([]byte(object))
		require.NoError(t, err)
		object = apply(t, string(operations), object)
	}
	var decoded map[string]any
	require.NoError(t, utiljson.Unmarshal([]byte(object), &decoded))
	definition, err := crd.Scalers()
	require.NoError(t, err)
	definition.Default(decoded)
	return decoded
}

// schemaMessage is what the API server says of a scaler that it does not store.
func schemaMessage(t *testing.T, object, old map[string]any) string {
	t.Helper()
	definition, err := crd.Scalers()
	require.NoError(t, err)
	errs := definition.Validate(t.Context(), object, old)
	require.NotEmpty(t, errs)
	return invalid("s1", errs, nil).response.Result.Message
}

func apply(t *testing.T, operations, object string) string {
	t.Helper()
	if operations == "" {
		return object
	}
	patch, err := jsonpatch.DecodePatch([]byte(operations))
	require.NoError(t, err)
	after, err := patch.Apply([]byte(object))
	require.NoError(t, err, operations)
	return string(after)
}

// sayTo sends a scaler to the validating webhook and says what comes back.
func sayTo(t *testing.T, say func(title, message string), title, object string, live *target.Deployment) {
	t.Helper()
	f := newFixture(cluster{target: func(string, string) (*target.Deployment, error) { return live, nil }})
	r := request(admissionv1.Create, workerv1.Kind, object, "")
	r.Name = "s1"
	response := f.send(t, ValidateScalerPath, r)
	var lines []string
	if !response.Allowed {
		lines = append(lines, response.Result.Message)
	}
	for _, warning := range response.Warnings {
		require.Less(t, len(warning), 256, "the API server may cut it")
		lines = append(lines, "Warning: "+warning)
	}
	require.NotEmpty(t, lines, title)
	say(title, strings.Join(lines, "\n"))
}

func policyMessages(t *testing.T, say func(title, message string)) {
	unmanaged, elastic, long := roleOf("server", observe.Server), roleOf("server", observe.Server), roleOf("server", observe.Server)
	unmanaged.Unmanaged, elastic.ElasticEP, long.Size = true, true, 2
	named := deploymentOf(long)
	named.Name = strings.Repeat("m", 52)
	bigger := roleOf("server", observe.Server)
	bigger.Replicas = 9
	server := policy("server", "", proportional("server"))
	for _, c := range []struct {
		title, object string
		live          *target.Deployment
	}{
		{"a role that nothing sizes", policy("prefill decode", "", proportional("prefill")), nil},
		{"a ratio out of reach", banded("a:8:9 b:1:3", "a/b:1:2"), nil},
		{"ratios that contradict each other", banded("a:1:9 b:1:9 c:1:9", "a/b:2:3 b/c:2:3 c/a:1:2"), nil},
		{"ratios too tangled to judge", banded("a:1:1024 b:1:1024 c:1:1024 d:1:1024", "a/b:1:2 b/c:1:2 c/d:1:2 d/a:1.01:2"), nil},
		{"a role that the target does not have", policy("server decode", "", proportional("server", "decode")), deploymentOf(roleOf("server", observe.Server))},
		{"a role with its own command", server, deploymentOf(unmanaged)},
		{"a role of elastic width", server, deploymentOf(elastic)},
		{"names too long at the maximum", server, named},
		{"a name taken at the maximum", policy("server server-r3", "", proportional("server", "server-r3")), deploymentOf(long, roleOf("server-r3", observe.Server))},
		{"a kind without capacity", policy("encode prefill decode", "encode/prefill", tokens(prefillTokens)), pair},
		{"a kind without forecast capacity", policy("decode", "", predictive(decodeTokens, "")), deploymentOf(roleOf("decode", observe.Decode))},
		{"an Encode role that nothing sizes", policy("encode prefill decode", "prefill/decode", tokens(prefillTokens+decodeTokens)), pair},
		{"a role of unknown kind", policy("server", "", tokens(`, "serverTargetTokensPerSecond": 1`)), deploymentOf(roleOf("server", ""))},
		{"several mistakes at once", policy("a server", "", proportional("a")), deploymentOf(unmanaged)},
		{"roles without bounds", policy("decode", "", proportional("decode")), pair},
		{"a count outside of its bounds", server, deploymentOf(bigger)},
		{"counts outside of a ratio", banded("a:1:9 b:1:9", "a/b:2:3"), deploymentOf(roleOf("a", observe.Server), roleOf("b", observe.Server))},
		{"a role that follows without a target ratio", strings.Replace(policy("prefill decode", "prefill/decode", proportional("decode")), `, "target": "1"`, `, "min": "1"`, 1), nil},
		{"an Encode role that follows without a target ratio", strings.Replace(policy("encode prefill decode", "encode/prefill", tokens(prefillTokens+decodeTokens)),
			`, "target": "1"`, `, "max": "1"`, 1), pair},
		{"windows that do not help", policy("a", "", `{"type": "TokenThroughput", "tokenThroughput": {"stableWindowSeconds": 60, "panicWindowSeconds": 60}}`), nil},
		{"a priority list without effect", queueDepth(`"rebalance": {"policy": "Opposing", "priority": ["server"]}, `), nil},
		{"the policy Priority without a list", queueDepth(`"rebalance": {"policy": "Priority"}, `), nil},
	} {
		sayTo(t, say, c.title, c.object, c.live)
	}
}

// sayOf says what is answered to any request.
func sayOf(t *testing.T, say func(title, message string), title, path string, c cluster, r *admissionv1.AdmissionRequest) {
	t.Helper()
	response := newFixture(c).send(t, path, r)
	require.False(t, response.Allowed, title)
	say(title, fmt.Sprintf("%d %s: %s", response.Result.Code, response.Result.Reason, response.Result.Message))
}

func unjudgedMessages(t *testing.T, say func(title, message string)) {
	down := cluster{target: func(string, string) (*target.Deployment, error) { return nil, errDown }}
	defect := cluster{target: func(string, string) (*target.Deployment, error) { panic("a defect") }}
	create := func(object string) *admissionv1.AdmissionRequest {
		return request(admissionv1.Create, workerv1.Kind, object, "")
	}
	sayOf(t, say, "the target cannot be read", ValidateScalerPath, down, create(queueDepth("")))
	sayOf(t, say, "a defect of the webhook", ValidateScalerPath, defect, create(queueDepth("")))
	sayOf(t, say, "a scaler of a wrong shape", ValidateScalerPath, cluster{}, create(scalerObject(`{"mode": 1}`)))
	sayOf(t, say, "a number that takes seconds to read", ValidateScalerPath, cluster{}, create(queueDepth(`"ratios": [{"min": "1e-99999999"}], `)))
	sayOf(t, say, "an operation that is not registered", ValidateScalerPath, cluster{}, request(admissionv1.Delete, workerv1.Kind, "", queueDepth("")))
	sayOf(t, say, "a kind that is not registered", ValidateScalerPath, cluster{}, request(admissionv1.Create, target.Kind, bare(1), ""))
	sayOf(t, say, "a kind that is not registered, to be defaulted", MutateScalerPath, cluster{}, request(admissionv1.Create, target.Kind, bare(1), ""))
	v := badRequest(defaultsNotWritten, errors.New("a value that cannot be printed")) // for want of an object whose defaults cannot be printed
	say("defaults that cannot be written", fmt.Sprintf("%d %s: %s", v.response.Result.Code, v.response.Result.Reason, v.response.Result.Message))
}

func fenceMessages(t *testing.T, say func(title, message string)) {
	broken := strings.Replace(bare(1), `"replicas": 1`, `"replicas": "one"`, 1)
	on := func(operation admissionv1.Operation, is, was string) *admissionv1.AdmissionRequest {
		return request(operation, target.Kind, is, was)
	}
	scale := func(object string) *admissionv1.AdmissionRequest {
		r := request(admissionv1.Update, "Scale", object, object)
		r.Kind = metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
		r.SubResource = "scale"
		return r
	}
	is := func(object string) cluster {
		return cluster{scaler: living, target: func(string, string) (*target.Deployment, error) {
			if object == "" {
				return nil, nil
			}
			return &target.Deployment{Namespace: "ns", Name: "m1", UID: "d1", Annotations: map[string]string{fence.BindingAnnotation: owner},
				Roles: []target.Role{roleOf("server", observe.Server)}}, nil
		}}
	}
	sayOf(t, say, "counts of a bound deployment", FencePath, cluster{scaler: living}, on(admissionv1.Update, bound(5), bound(1)))
	sayOf(t, say, "a scale of a bound deployment", FencePath, is("bound"), scale(`{"spec": {"replicas": 5}}`))
	sayOf(t, say, "a scale of what is not there", FencePath, is(""), scale(`{"spec": {"replicas": 5}}`))
	sayOf(t, say, "a scale that cannot be read", FencePath, is(""), scale(`[]`))
	sayOf(t, say, "a deployment that cannot be read", FencePath, cluster{}, on(admissionv1.Create, broken, ""))
	sayOf(t, say, "an old deployment that cannot be read", FencePath, cluster{}, on(admissionv1.Update, bare(1), broken))
	sayOf(t, say, "an operation that is not registered", FencePath, cluster{}, on(admissionv1.Delete, "", bare(1)))
	sayOf(t, say, "a kind that is not registered", FencePath, cluster{}, request(admissionv1.Update, "Pod", "{}", "{}"))
}

func protocolMessages(t *testing.T, say func(title, message string)) {
	f := newFixture(cluster{})
	get := httptest.NewRecorder()
	f.handler.ServeHTTP(get, httptest.NewRequest(http.MethodGet, FencePath, nil))
	unreadable := httptest.NewRequest(http.MethodPost, FencePath, brokenReader{})
	unreadable.Header.Set("Content-Type", "application/json")
	cut := httptest.NewRecorder()
	f.handler.ServeHTTP(cut, unreadable)
	for _, c := range []struct {
		title  string
		answer *httptest.ResponseRecorder
	}{
		{"not a POST", get},
		{"another content type", f.post(FencePath, "text/plain", nil)},
		{"a body that is too large", f.post(FencePath, "application/json", make([]byte, maxBody+1))},
		{"a body that breaks off", cut},
		{"garbage", f.post(FencePath, "application/json", []byte("{{"))},
		{"another kind", f.post(FencePath, "application/json", []byte(`{"kind": "Pod"}`))},
		{"a review without a request", f.post(FencePath, "application/json", []byte(review+"}"))},
	} {
		say(c.title, fmt.Sprintf("%d %s", c.answer.Code, c.answer.Body.String()))
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errDown }
