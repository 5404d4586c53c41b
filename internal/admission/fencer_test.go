package admission

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// deployment renders a ModelDeployment with one role and the two annotations; an empty one is absent.
func deployment(replicas int, binding, decision string) string {
	annotations := `"note": "x"`
	if binding != "" {
		annotations += `, "` + fence.BindingAnnotation + `": ` + strconv.Quote(binding)
	}
	if decision != "" {
		annotations += `, "` + fence.DecisionAnnotation + `": ` + strconv.Quote(decision)
	}
	return fmt.Sprintf(`{"apiVersion": "worker.gpustack.ai/v1", "kind": "ModelDeployment",
		"metadata": {"namespace": "ns", "name": "m1", "uid": "d1", "annotations": {%s}},
		"spec": {"model": {"name": "x"}, "roles": [{"name": "server", "replicas": %d}]}}`, annotations, replicas)
}

const owner = `{"scalerName":"s1","scalerUID":"u1","term":1}`

func bare(replicas int) string { return deployment(replicas, "", "") }

func bound(replicas int) string { return deployment(replicas, owner, "") }

func committed(replicas int32, id string) string {
	return deployment(int(replicas), owner, fence.Decision{DecisionID: id, Term: 1, Vector: map[string]int32{"server": replicas}}.String())
}

func living(string, string) (*fence.Scaler, error) {
	return &fence.Scaler{UID: "u1", TargetUID: "d1", Term: 1}, nil
}

func leading() (fence.Epoch, error) {
	return fence.Epoch{LeaseUID: "0a1b2c3d-4e5f", Transitions: 2}, nil
}

func TestTheFenceJudgesRequests(t *testing.T) {
	type edit = func(*admissionv1.AdmissionRequest)
	as := func(user string) edit { return func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = user } }
	everything := cluster{scaler: living, epoch: leading}
	for name, test := range map[string]struct {
		operation admissionv1.Operation
		old, new  string
		edit      edit
		cluster   cluster
		code      int32 // 0: allowed
		cause     fence.Reason
	}{
		"a user creates a deployment":       {operation: admissionv1.Create, new: bare(3)},
		"a user creates one with a binding": {operation: admissionv1.Create, new: bound(3), code: 403, cause: fence.CreatedWithOwner},
		"a user scales an unbound one":      {operation: admissionv1.Update, old: bare(1), new: bare(3)},
		"a user scales a bound one":         {operation: admissionv1.Update, old: bound(1), new: bound(3), code: 403, cause: fence.CountsOwned},
		"a user scales a bound one as v1alpha1": {operation: admissionv1.Update, old: bound(1), new: bound(3), code: 403, cause: fence.CountsOwned,
			edit: func(r *admissionv1.AdmissionRequest) { r.Kind.Version = "v1alpha1" }},
		"a user scales a bound one in a dry run": {operation: admissionv1.Update, old: bound(1), new: bound(3), code: 403, cause: fence.CountsOwned,
			edit: func(r *admissionv1.AdmissionRequest) { r.DryRun = new(true) }},
		"a user scales a bound one through a subresource": {operation: admissionv1.Update, old: bound(1), new: bound(3), code: 403,
			cause: fence.CountsOwned, edit: func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" }},
		"a user scales a bound one that is being deleted": {operation: admissionv1.Update, old: bound(1), code: 403, cause: fence.CountsOwned,
			new: `{"kind": "ModelDeployment", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": {"` + fence.BindingAnnotation +
				`": ` + strconv.Quote(owner) + `}}, "spec": {"roles": [{"name": "server", "replicas": 3}]}}`},
		"an absent count is one":                     {operation: admissionv1.Update, old: bound(1), new: `{"kind": "ModelDeployment", "metadata": {"annotations": {"` + fence.BindingAnnotation + `": ` + strconv.Quote(owner) + `}}, "spec": {"roles": [{"name": "server"}]}}`},
		"a user writes like the decider":             {operation: admissionv1.Update, old: bound(1), new: committed(3, "0a1b2c3d-2.1.up"), code: 403, cause: fence.CountsOwned},
		"the decider commits":                        {operation: admissionv1.Update, old: bound(1), new: committed(3, "0a1b2c3d-2.1.up"), edit: as(decider), cluster: everything},
		"the leader before commits":                  {operation: admissionv1.Update, old: bound(1), new: committed(3, "0a1b2c3d-1.1.up"), edit: as(decider), cluster: everything, code: 403, cause: fence.StaleEpoch},
		"another account of that name":               {operation: admissionv1.Update, old: bound(1), new: committed(3, "0a1b2c3d-2.1.up"), edit: as("decider"), code: 403, cause: fence.CountsOwned},
		"a member of its group":                      {operation: admissionv1.Update, old: bound(1), new: committed(3, "0a1b2c3d-2.1.up"), code: 403, cause: fence.CountsOwned, edit: func(r *admissionv1.AdmissionRequest) { r.UserInfo.Groups = []string{decider} }},
		"the Lease cannot be read":                   {operation: admissionv1.Update, old: bound(1), new: committed(3, "0a1b2c3d-2.1.up"), edit: as(decider), code: 503, cause: fence.FactsNotAvailable, cluster: cluster{epoch: func() (fence.Epoch, error) { return fence.Epoch{}, errDown }}},
		"a user removes a living scaler's binding":   {operation: admissionv1.Update, old: bound(1), new: bare(1), cluster: everything, code: 403, cause: fence.BindingNotOrphan},
		"a user removes an orphaned binding":         {operation: admissionv1.Update, old: bound(1), new: bare(1), cluster: cluster{scaler: func(string, string) (*fence.Scaler, error) { return nil, nil }}},
		"a user removes a binding, nobody can tell":  {operation: admissionv1.Update, old: bound(1), new: bare(1), cluster: cluster{scaler: func(string, string) (*fence.Scaler, error) { return nil, errDown }}, code: 503, cause: fence.FactsNotAvailable},
		"an operation that it is not registered for": {operation: admissionv1.Connect, old: bound(1), new: bound(1), code: 400},
		"an object that is not JSON":                 {operation: admissionv1.Update, old: bound(1), new: `"x"`, code: 400},
		"no new object":                              {operation: admissionv1.Update, old: bound(1), code: 400},
		"no old object":                              {operation: admissionv1.Update, new: bound(1), code: 400},
		"roles that cannot be read":                  {operation: admissionv1.Update, old: bound(1), new: `{"kind": "ModelDeployment", "spec": {"roles": "none"}}`, code: 400},
		"an old object that cannot be read":          {operation: admissionv1.Update, old: `{"kind": "ModelDeployment", "spec": {"roles": 1}}`, new: bare(1), code: 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(test.operation, target.Kind, test.new, test.old)
			if test.edit != nil {
				test.edit(r)
			}
			f := newFixture(test.cluster)
			response := f.send(t, FencePath, r)
			outcome := outcomeAllowed
			if test.code != 0 {
				require.False(t, response.Allowed)
				require.Equal(t, test.code, response.Result.Code, response.Result.Message)
				outcome = outcomeBadRequest
			} else {
				require.True(t, response.Allowed, "%v", response.Result)
			}
			if test.cause != "" {
				require.Equal(t, metav1.CauseType(test.cause), response.Result.Details.Causes[0].Type)
				outcome = string(test.cause)
			}
			operation := map[bool]string{true: "other", false: string(test.operation)}[test.operation == admissionv1.Connect]
			require.InDelta(t, 1, f.counted(t, FencePath[1:], operation, outcome), 0)
		})
	}
}

func TestAScaleSubresourceCannotGoAroundTheFence(t *testing.T) {
	live := func(annotations map[string]string) func(string, string) (*target.Deployment, error) {
		return func(string, string) (*target.Deployment, error) {
			return &target.Deployment{Namespace: "ns", Name: "m1", UID: "d1", Annotations: annotations,
				Roles: []target.Role{{Name: "server", Kind: observe.Server, Replicas: 2}}}, nil
		}
	}
	owned := map[string]string{fence.BindingAnnotation: owner}
	for name, test := range map[string]struct {
		cluster cluster
		object  string
		user    string
		code    int32
	}{
		"of an unbound deployment":                  {cluster{target: live(nil)}, `{"spec": {"replicas": 5}}`, "jane", 0},
		"of a bound one":                            {cluster{target: live(owned)}, `{"spec": {"replicas": 5}}`, "jane", 403},
		"of a bound one, by the decider":            {cluster{target: live(owned)}, `{"spec": {"replicas": 5}}`, decider, 403},
		"of a bound one, to the count that it has":  {cluster{target: live(owned)}, `{"spec": {"replicas": 2}}`, "jane", 0},
		"of one whose binding cannot be read":       {cluster{target: live(map[string]string{fence.BindingAnnotation: "x"})}, `{"spec": {"replicas": 5}}`, "jane", 0},
		"of one that is gone":                       {cluster{target: noTarget}, `{"spec": {"replicas": 5}}`, "jane", 400},
		"while the deployment cannot be read":       {cluster{target: func(string, string) (*target.Deployment, error) { return nil, errDown }}, `{"spec": {"replicas": 5}}`, "jane", 503},
		"with an object that is not a scale at all": {cluster{}, `"five"`, "jane", 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(admissionv1.Update, "Scale", test.object, test.object)
			r.Kind.Group, r.SubResource, r.UserInfo.Username = "autoscaling", "scale", test.user
			response := newFixture(test.cluster).send(t, FencePath, r)
			require.Equal(t, test.code == 0, response.Allowed)
			if test.code != 0 {
				require.Equal(t, test.code, response.Result.Code)
			}
		})
	}
	r := request(admissionv1.Update, "Scale", `{"spec": {"replicas": 5}}`, "")
	r.Kind.Group = "autoscaling"
	require.Equal(t, int32(http.StatusBadRequest), newFixture(cluster{}).send(t, FencePath, r).Result.Code, "a Scale sent by mistake")
}
