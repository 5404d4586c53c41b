package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admission/v1"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// hanging is a cluster that never answers.
type hanging struct{ cluster }

func (hanging) Scaler(ctx context.Context, _, _ string) (*fence.Scaler, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAReadThatHangsIsRefusedBeforeTheAPIServerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := New(Options{DeciderUser: decider, Cluster: hanging{}, Log: zap.NewNop(), Registerer: prometheus.NewRegistry()})
		body, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
			"request": request(admissionv1.Update, target.Kind, bare(1), bound(1))})
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodPost, FencePath+"?timeout=1s", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		answer, began := httptest.NewRecorder(), time.Now()
		handler.ServeHTTP(answer, r)
		require.Equal(t, 800*time.Millisecond, time.Since(began))
		var review admissionv1.AdmissionReview
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &review))
		require.False(t, review.Response.Allowed)
		require.Equal(t, int32(http.StatusServiceUnavailable), review.Response.Result.Code)
	})
}

func TestABodyOfTheLimitIsRead(t *testing.T) {
	f := newFixture(cluster{})
	text := review + `, "request": {"uid": "u", "operation": "UPDATE", "x": "`
	body := text + strings.Repeat("a", maxBody-len(text)-3) + `"}}`
	require.Len(t, body, 3<<20)
	require.Equal(t, http.StatusOK, f.post(FencePath, "application/json", []byte(body)).Code)
	require.Equal(t, http.StatusRequestEntityTooLarge, f.post(FencePath, "application/json", []byte(body+" ")).Code)
}

// A dry run is judged as the write, in every word; side effects there are none, because a Cluster cannot be written.
func TestADryRunIsJudgedAsTheWriteWouldBe(t *testing.T) {
	f := newFixture(cluster{scaler: living, epoch: leading, target: noTarget})
	commit := request(admissionv1.Update, target.Kind, committed(3, "0a1b2c3d-2.1.up"), bound(1))
	commit.UserInfo.Username = decider
	for name, write := range map[string]*admissionv1.AdmissionRequest{
		"counts of a bound deployment": request(admissionv1.Update, target.Kind, bound(3), bound(1)),
		"counts of an unbound one":     request(admissionv1.Update, target.Kind, bare(3), bare(1)),
		"removing a binding":           request(admissionv1.Update, target.Kind, bare(1), bound(1)),
		"a commit":                     commit,
	} {
		t.Run(name, func(t *testing.T) {
			written := f.send(t, FencePath, write)
			write.DryRun = new(true)
			require.Equal(t, written, f.send(t, FencePath, write))
		})
	}
}

// counting is a cluster that counts what is read of it.
type counting struct {
	cluster
	reads *int
}

func (c counting) Target(ctx context.Context, namespace, name string) (*target.Deployment, error) {
	*c.reads++
	return c.cluster.Target(ctx, namespace, name)
}

func (c counting) Scaler(ctx context.Context, namespace, name string) (*fence.Scaler, error) {
	*c.reads++
	return c.cluster.Scaler(ctx, namespace, name)
}

func (c counting) Epoch(ctx context.Context) (fence.Epoch, error) {
	*c.reads++
	return c.cluster.Epoch(ctx)
}

func TestNoRequestCostsMoreThanOneLiveRead(t *testing.T) {
	commit := request(admissionv1.Update, target.Kind, committed(3, "0a1b2c3d-2.1.up"), bound(1))
	first := request(admissionv1.Update, target.Kind, committed(3, "0a1b2c3d-2.1.up"), bare(1))
	release := request(admissionv1.Update, target.Kind, bare(1), bound(1))
	for _, r := range []*admissionv1.AdmissionRequest{commit, first, release} {
		r.UserInfo.Username = decider
	}
	for name, test := range map[string]struct {
		path    string
		request *admissionv1.AdmissionRequest
		reads   int
	}{
		"defaults of a scaler":                      {MutateScalerPath, request(admissionv1.Create, "ModelDeploymentScaler", queueDepth(""), ""), 0},
		"a scaler, judged with its target":          {ValidateScalerPath, request(admissionv1.Create, "ModelDeploymentScaler", queueDepth(""), ""), 1},
		"a scaler whose spec stays":                 {ValidateScalerPath, request(admissionv1.Update, "ModelDeploymentScaler", queueDepth(""), queueDepth("")), 0},
		"creating a deployment":                     {FencePath, request(admissionv1.Create, target.Kind, bare(1), ""), 0},
		"counts of an unbound deployment":           {FencePath, request(admissionv1.Update, target.Kind, bare(3), bare(1)), 0},
		"counts of a bound deployment":              {FencePath, request(admissionv1.Update, target.Kind, bound(3), bound(1)), 0},
		"another field":                             {FencePath, request(admissionv1.Update, target.Kind, bound(1), bound(1)), 0},
		"removing a binding, an orphan perhaps":     {FencePath, request(admissionv1.Update, target.Kind, bare(1), bound(1)), 1},
		"removing a binding and a count":            {FencePath, request(admissionv1.Update, target.Kind, bare(3), bound(1)), 0},
		"a commit: the Lease":                       {FencePath, commit, 1},
		"a first commit with its binding: the same": {FencePath, first, 1},
		"a release": {FencePath, release, 0},
	} {
		t.Run(name, func(t *testing.T) {
			reads := 0
			c := counting{cluster{scaler: living, epoch: leading, target: noTarget}, &reads}
			f := fixture{New(Options{DeciderUser: decider, Cluster: c, Log: zap.NewNop(), Registerer: prometheus.NewRegistry()}), nil}
			f.send(t, test.path, test.request)
			require.Equal(t, test.reads, reads)
		})
	}
}
