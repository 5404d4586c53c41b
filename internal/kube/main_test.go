package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/testcluster"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

func TestMain(m *testing.M) { os.Exit(testcluster.Run(m)) }

// patience of a test with a real API server.
const (
	patience = 60 * time.Second
	tick     = 20 * time.Millisecond
)

var (
	installed  sync.Once
	namespaces atomic.Int64
	testEpoch  = fence.Epoch{LeaseUID: "0a1b2c3d-0000", Transitions: 4}
)

// world is a namespace of one's own on the real API server.
type world struct {
	t         *testing.T
	cluster   *testcluster.Cluster
	client    *Client
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := testcluster.Get(t)
	installed.Do(func() {
		cluster.Apply(t, "manifests/crds", "dev/crds/modeldeployments.yaml")
	})
	client, err := NewClient(t.Context(), cluster.Config(t), "")
	require.NoError(t, err)
	w := &world{t: t, cluster: cluster, client: client, namespace: fmt.Sprintf("kube-%d", namespaces.Add(1))}
	_, err = client.Core.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return w
}

// alwaysHeld is the Lease of a test that is not about Leases.
type alwaysHeld struct{}

func (alwaysHeld) Write(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	return ctx, cancel, nil
}

func (w *world) writer() *Writer { return NewWriter(w.client, alwaysHeld{}, testEpoch) }

func (w *world) name(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.namespace, Name: name}
}

// deploy makes a ModelDeployment with two roles.
func (w *world) deploy(name string, annotations map[string]string) target.Deployment {
	w.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": target.GroupName + "/" + w.client.Version, "kind": target.Kind,
		"metadata": map[string]any{"name": name, "namespace": w.namespace},
		"spec": map[string]any{
			"model": map[string]any{"name": "m"}, "engine": map[string]any{"name": "vLLM"},
			"roles": []any{
				map[string]any{"name": "prefill", "kind": "Prefill", "replicas": int64(2), "instanceType": "gpu"},
				map[string]any{"name": "decode", "kind": "Decode", "instanceType": "gpu"},
			},
		},
	}}
	object.SetAnnotations(annotations)
	created, err := w.client.Targets(w.namespace).Create(w.t.Context(), object, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return w.parse(created)
}

func (w *world) parse(object *unstructured.Unstructured) target.Deployment {
	w.t.Helper()
	d, err := target.Parse(object)
	require.NoError(w.t, err)
	return d
}

func (w *world) live(name string) target.Deployment {
	w.t.Helper()
	object, err := w.client.Targets(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return w.parse(object)
}

// scaler makes an Active scaler of the two roles.
func (w *world) scaler(name, targetName string) *workerv1.ModelDeploymentScaler {
	w.t.Helper()
	created, err := w.client.Scalers(w.namespace).Create(w.t.Context(), &workerv1.ModelDeploymentScaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: workerv1.GroupName + "/" + w.client.Version, Kind: workerv1.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace},
		Spec: workerv1.ModelDeploymentScalerSpec{
			TargetRef: workerv1.TargetReference{Name: targetName},
			Mode:      workerv1.ModeActive,
			Roles:     []workerv1.RoleBounds{{Name: "prefill", MaxReplicas: 9}, {Name: "decode", MaxReplicas: 9}},
			Algorithm: workerv1.Algorithm{Type: workerv1.AlgorithmProportional, Proportional: &workerv1.Proportional{
				Metric: workerv1.MetricQueueDepth,
				RoleTargets: []workerv1.RoleTarget{
					{Name: "prefill", Target: resource.MustParse("8")}, {Name: "decode", Target: resource.MustParse("8")},
				},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return created
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
