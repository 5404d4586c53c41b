package decider

import (
	"context"
	"fmt"
	"iter"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/testcluster"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/process"
	"gpustack.ai/model-deployment-scaler/internal/stream"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

func TestMain(m *testing.M) { os.Exit(testcluster.Run(m)) }

// enough is how long a test waits for what takes a few intervals of five seconds, on a busy machine.
const enough = 2 * time.Minute

var (
	installed  sync.Once
	namespaces atomic.Int64
)

// world is a namespace on a real API server with a target `md` of one role, Pods that follow its count at once, and one
// sampler that reports what the test says.
type world struct {
	t          *testing.T
	cluster    *testcluster.Cluster
	client     *kube.Client
	namespace  string
	kubeconfig string
	sampler    *sampler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := testcluster.Get(t)
	installed.Do(func() { cluster.Apply(t, "manifests/crds", "dev/crds/modeldeployments.yaml") })
	client, err := kube.NewClient(t.Context(), cluster.Config(t), "")
	require.NoError(t, err)
	w := &world{t: t, cluster: cluster, client: client, kubeconfig: cluster.Kubeconfig,
		namespace: fmt.Sprintf("decider-%d", namespaces.Add(1)), sampler: startSampler(t, "sampler-0")}
	_, err = client.Core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.createTarget()
	t.Cleanup(w.removeScalers)
	return w
}

func (w *world) createTarget() {
	w.t.Helper()
	require.NoError(w.t, w.makeTarget(w.t.Context(), "md"))
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.followCounts(ctx)
	}()
	w.t.Cleanup(func() { cancel(); <-ended })
}

func (w *world) makeTarget(ctx context.Context, name string) error {
	_, err := w.client.Targets(w.namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "worker.gpustack.ai/v1", "kind": target.Kind, "metadata": map[string]any{"name": name, "namespace": w.namespace},
		"spec": map[string]any{
			"model": map[string]any{"name": "m"}, "engine": map[string]any{"name": "vLLM"},
			"roles": []any{map[string]any{"name": "server", "kind": "Server", "replicas": int64(1), "instanceType": "gpu"}},
		},
	}}, metav1.CreateOptions{})
	return err
}

// followCounts plays the owner of the target and the kubelet: a ready Pod for every replica, at once.
func (w *world) followCounts(ctx context.Context) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	have, uid := int32(0), ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		d, err := w.target(ctx)
		if err != nil {
			continue
		}
		if d.UID != uid {
			have, uid = 0, d.UID
		}
		for ; have < d.Counts()["server"] && w.startPod(ctx, d, have) == nil; have++ {
		}
		for ; have > d.Counts()["server"] && w.stopPod(ctx, d, have-1) == nil; have-- {
		}
	}
}

func podName(d target.Deployment, ordinal int32) string {
	return fmt.Sprintf("md-%s-%d", d.UID[:8], ordinal)
}

func (w *world) startPod(ctx context.Context, d target.Deployment, ordinal int32) error {
	yes := true
	pods := w.client.Core.CoreV1().Pods(w.namespace)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(d, ordinal), Namespace: w.namespace,
			Labels: map[string]string{target.NameLabel: target.NameValue, target.InstanceLabel: "md", target.ComponentLabel: "server",
				target.OrdinalLabel: fmt.Sprint(ordinal)},
			Annotations: map[string]string{target.ScrapeAnnotation: "true", target.PortAnnotation: "8000"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "worker.gpustack.ai/v1", Kind: target.Kind, Name: "md",
				UID: types.UID(d.UID), Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: target.EngineContainer, Image: "engine"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	ip := fmt.Sprintf("127.99.0.%d", ordinal+1)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

func (w *world) stopPod(ctx context.Context, d target.Deployment, ordinal int32) error {
	zero := int64(0)
	return w.client.Core.CoreV1().Pods(w.namespace).Delete(ctx, podName(d, ordinal), metav1.DeleteOptions{GracePeriodSeconds: &zero})
}

// target reads the target.
func (w *world) target(ctx context.Context) (target.Deployment, error) {
	object, err := w.client.Targets(w.namespace).Get(ctx, "md", metav1.GetOptions{})
	if err != nil {
		return target.Deployment{}, err
	}
	return target.Parse(object)
}

// live is the target now.
func (w *world) live() target.Deployment {
	w.t.Helper()
	d, err := w.target(w.t.Context())
	require.NoError(w.t, err)
	return d
}

// scale makes a scaler of `md` that wants 8 requests on a replica and forgets recommendations after a second.
func (w *world) scale(name string, mode workerv1.Mode) {
	w.t.Helper()
	_, err := w.client.Scalers(w.namespace).Create(w.t.Context(), scalerOf("md", w.namespace, name, mode), metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func scalerOf(target, namespace, name string, mode workerv1.Mode) *workerv1.ModelDeploymentScaler {
	return &workerv1.ModelDeploymentScaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: "worker.gpustack.ai/v1", Kind: workerv1.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: workerv1.ModelDeploymentScalerSpec{
			TargetRef: workerv1.TargetReference{Name: target},
			Mode:      mode,
			Sampling:  workerv1.Sampling{IntervalSeconds: 5},
			Roles:     []workerv1.RoleBounds{{Name: "server", MinReplicas: 1, MaxReplicas: 6}},
			Algorithm: workerv1.Algorithm{Type: workerv1.AlgorithmProportional, Proportional: &workerv1.Proportional{
				Metric: workerv1.MetricQueueDepth, RoleTargets: []workerv1.RoleTarget{{Name: "server", Target: resource.MustParse("8")}},
			}},
			Behavior: workerv1.Behavior{ScaleDown: workerv1.ScaleDown{StabilizationWindowSeconds: 1}},
		},
	}
}

func (w *world) scaler(name string) *workerv1.ModelDeploymentScaler {
	w.t.Helper()
	s, err := w.client.Scalers(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return s
}

// patchScaler edits a scaler.
func (w *world) patchScaler(name, patch string) {
	w.t.Helper()
	_, err := w.client.Scalers(w.namespace).Patch(w.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

// removeScalers leaves nothing for the decider of the next test to plan.
func (w *world) removeScalers() {
	ctx := context.Background()
	list, err := w.client.Scalers(w.namespace).List(ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	for _, s := range list.Items {
		_, _ = w.client.Scalers(w.namespace).Patch(ctx, s.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		_ = w.client.Scalers(w.namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})
	}
}

// eventually waits.
func (w *world) eventually(what string, condition func() bool) {
	w.t.Helper()
	require.Eventually(w.t, condition, enough, 50*time.Millisecond, what)
}

// condition is the status and reason of a scaler's condition: "True/Bound".
func (w *world) condition(name, kind string) string {
	w.t.Helper()
	for _, c := range w.scaler(name).Status.Conditions {
		if c.Type == kind {
			return string(c.Status) + "/" + c.Reason
		}
	}
	return ""
}

// running is a decider in this process.
type running struct {
	stop     context.CancelFunc
	ended    chan error
	registry *prometheus.Registry
}

func (w *world) decide(identity string, adjust ...func(*Options)) *running {
	w.t.Helper()
	o := NewOptions()
	o.Kubeconfig, o.Namespace, o.Identity = w.kubeconfig, w.namespace, identity
	o.InsecureLoopback, o.SamplerAddresses = true, []string{w.sampler.address}
	o.RetryPeriod, o.GRPCAddress = 200*time.Millisecond, "127.0.0.1:0"
	for _, f := range adjust {
		f(o)
	}
	require.NoError(w.t, o.Validate())
	ctx, stop := context.WithCancel(context.Background())
	r := &running{stop: stop, ended: make(chan error, 1), registry: prometheus.NewRegistry()}
	p := &process.Process{
		Log:      zaptest.NewLogger(w.t, zaptest.Level(zap.InfoLevel)).Named(identity),
		Registry: r.registry, Health: &process.Health{}, Version: "test",
	}
	go func() { r.ended <- Run(ctx, p, o) }()
	w.t.Cleanup(func() {
		stop()
		select {
		case err := <-r.ended:
			r.ended <- err
		case <-time.After(10 * time.Second):
			w.t.Error("the decider did not end within 10 seconds")
		}
	})
	return r
}

// end stops the decider in order.
func (r *running) end(t *testing.T) error {
	t.Helper()
	r.stop()
	select {
	case err := <-r.ended:
		r.ended <- err
		return err
	case <-time.After(10 * time.Second):
		require.FailNow(t, "the decider did not end within 10 seconds")
		return nil
	}
}

// sampler is a real gRPC server whose readings the test sets.
type sampler struct {
	address string
	server  *stream.Server
	load    atomic.Int64 // requests on each role
	stop    func()       // in order

	mu    sync.Mutex
	owned map[observe.RoleKey]observe.Assignment
}

func startSampler(t *testing.T, shard string) *sampler {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &sampler{address: listener.Addr().String(), owned: make(map[observe.RoleKey]observe.Assignment)}
	s.server = stream.NewServer(stream.ServerOptions{Shard: shard, Version: "test", CapacityScrapesPerSecond: 200,
		Log: zap.NewNop(), Registerer: prometheus.NewRegistry()}, s)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = s.server.Serve(ctx, listener, nil) })
	group.Go(func() { s.publish(ctx) })
	s.stop = func() { cancel(); group.Wait() }
	t.Cleanup(s.stop)
	return s
}

// publish reports every owned role twice a second.
func (s *sampler) publish(ctx context.Context) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for sequence := uint64(1); ; sequence++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, a := range s.assigned() {
			n := len(a.Pods)
			s.server.Publish(observe.RoleObservation{
				Key: a.Key, Kind: a.Kind, Engine: observe.VLLM, Sequence: sequence, Start: time.Now(), End: time.Now(), Interval: a.Interval,
				Span:     a.Interval,
				Coverage: observe.Coverage{ReadyReplicas: a.ReadyReplicas, Targets: n, Selected: n, Answered: n, Rated: n},
				State:    observe.Fresh, Running: observe.Known(float64(s.load.Load())), Waiting: observe.Known(0),
				Prompt: observe.Known(100), RawPrompt: observe.Known(100), Generation: observe.Known(10), KVCacheUsage: observe.Known(0.5),
			})
		}
	}
}

func (s *sampler) assigned() []observe.Assignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []observe.Assignment
	for _, a := range s.owned {
		list = append(list, a)
	}
	return list
}

func (s *sampler) Apply(a stream.Assign) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Full {
		clear(s.owned)
	}
	for _, key := range a.Removals {
		delete(s.owned, key)
	}
	for _, upsert := range a.Upserts {
		s.owned[upsert.Key] = upsert
	}
}

func (s *sampler) SessionStarted(string)             {}
func (s *sampler) SessionEnded()                     {}
func (s *sampler) Latest() []observe.RoleObservation { return nil }
func (s *sampler) Replay(time.Duration) iter.Seq[observe.RoleObservation] {
	return slices.Values[[]observe.RoleObservation](nil)
}
