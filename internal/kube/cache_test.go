package kube

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// cache starts the caches and waits until they are warm.
func (w *world) cache() *Cache {
	w.t.Helper()
	c, err := NewCache(w.client, CacheOptions{
		Namespace: w.namespace, Selector: "app=sampler", WorkloadPoll: 100 * time.Millisecond, Log: zaptest.NewLogger(w.t, zaptest.Level(zap.WarnLevel)),
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Run(ctx)
	}()
	w.t.Cleanup(func() { cancel(); <-ended })
	require.True(w.t, c.WaitForSync(ctx))
	return c
}

// pod makes a Pod of an instance and gives it a status, as a kubelet would.
func (w *world) pod(d target.Deployment, role string, ordinal int, labels map[string]string, ready bool) *corev1.Pod {
	w.t.Helper()
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%s-%d", d.Name, role, ordinal), Namespace: w.namespace,
			Labels: map[string]string{
				target.NameLabel: target.NameValue, target.InstanceLabel: d.Name, target.ComponentLabel: role,
				target.OrdinalLabel: fmt.Sprint(ordinal),
			},
			Annotations: map[string]string{target.ScrapeAnnotation: "true", target.PortAnnotation: "8000", "example.com/large": "dropped"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: target.GroupName + "/v1", Kind: target.Kind,
				Name: d.Name, UID: types.UID(d.UID), Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: target.EngineContainer, Image: "engine"}}},
	}
	for key, value := range labels {
		pod.Labels[key] = value
	}
	return w.run(pod, fmt.Sprintf("127.99.0.%d", ordinal+1), ready)
}

func (w *world) run(pod *corev1.Pod, ip string, ready bool) *corev1.Pod {
	w.t.Helper()
	pods := w.client.Core.CoreV1().Pods(w.namespace)
	created, err := pods.Create(w.t.Context(), pod, metav1.CreateOptions{})
	require.NoError(w.t, err)
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	created.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: target.EngineContainer, ContainerID: "c://1", RestartCount: 2}},
	}
	created, err = pods.UpdateStatus(w.t.Context(), created, metav1.UpdateOptions{})
	require.NoError(w.t, err)
	return created
}

// eventually waits for a snapshot that satisfies a condition.
func (w *world) eventually(c *Cache, name string, satisfies func(*target.Snapshot) bool) *target.Snapshot {
	w.t.Helper()
	var snapshot *target.Snapshot
	require.Eventually(w.t, func() bool {
		var err error
		snapshot, err = c.Snapshot(w.name(name))
		return err == nil && satisfies(snapshot)
	}, patience, tick)
	return snapshot
}

func TestASnapshotShowsTheTargetWithItsInstances(t *testing.T) {
	w := newWorld(t)
	c := w.cache()
	d := w.deploy("md", map[string]string{"example.com/long": "not kept", fence.BindingAnnotation: testBinding.String()})
	w.pod(d, "prefill", 0, nil, true)
	w.pod(d, "prefill", 1, nil, false)
	stranger := d
	stranger.UID = "somebody-else"
	w.pod(stranger, "decode", 0, nil, true)

	s := w.eventually(c, "md", func(s *target.Snapshot) bool {
		return s != nil && target.Ready(s.Instances, "prefill") == 1 && len(s.Instances) == 2
	})
	require.Equal(t, d.ResourceVersion, s.ResourceVersion)
	require.Equal(t, d.Roles, s.Roles)
	require.Equal(t, map[string]string{"example.com/long": "", fence.BindingAnnotation: testBinding.String()}, s.Annotations)
	endpoints := target.Endpoints(s.Instances, "prefill")
	require.Len(t, endpoints, 1)
	require.Equal(t, "127.99.0.1", endpoints[0].Address)
	require.Equal(t, 8000, endpoints[0].Port)
	require.Equal(t, "c://1#2", endpoints[0].Incarnation)
	require.Equal(t, "node-1", endpoints[0].Node)

	live, err := c.SnapshotLive(t.Context(), w.name("md"))
	require.NoError(t, err)
	require.Equal(t, s, live)
}

func TestWhatIsNotThereIsNil(t *testing.T) {
	w := newWorld(t)
	c := w.cache()
	require.Nil(t, c.Scaler(w.name("none")))
	live, err := c.ScalerLive(t.Context(), w.name("none"))
	require.NoError(t, err)
	require.Nil(t, live)
	s, err := c.Snapshot(w.name("none"))
	require.NoError(t, err)
	require.Nil(t, s)
	s, err = c.SnapshotLive(t.Context(), w.name("none"))
	require.NoError(t, err)
	require.Nil(t, s)
}

func TestScalersAreFoundByTheirTarget(t *testing.T) {
	w := newWorld(t)
	c := w.cache()
	w.scaler("one", "md")
	w.scaler("two", "md")
	w.scaler("three", "other")
	require.Eventually(t, func() bool { return len(c.ScalersOf(w.name("md"))) == 2 }, patience, tick)
	for _, s := range c.ScalersOf(w.name("md")) {
		require.Empty(t, s.ManagedFields)
	}
}

func TestSamplersAreTheReadyPods(t *testing.T) {
	w := newWorld(t)
	c := w.cache()
	for i, ready := range []bool{true, false, true} {
		w.run(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("sampler-%d", i), Namespace: w.namespace, Labels: map[string]string{"app": "sampler"}},
			Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "sampler", Image: "sampler"}}},
		}, fmt.Sprintf("127.99.1.%d", i+1), ready)
	}
	require.Eventually(t, func() bool { return len(c.Samplers()) == 2 }, patience, tick)
	require.ElementsMatch(t, []Sampler{{"sampler-0", "127.99.1.1"}, {"sampler-2", "127.99.1.3"}}, c.Samplers())
}

func TestWorkloadsDecideOnceTheClusterServesThemAndNoLongerWhenItDoesNot(t *testing.T) {
	w := newWorld(t)
	c := w.cache()
	d := w.deploy("md", nil)
	pod := w.pod(d, "prefill", 0, map[string]string{target.QueueLabel: "gpu"}, true)
	admission := func(want target.Admission) func(*target.Snapshot) bool {
		return func(s *target.Snapshot) bool {
			return s != nil && len(s.Instances) == 1 && s.Instances[0].Admission == want
		}
	}
	w.eventually(c, "md", admission(target.AdmissionGranted)) // scheduled is admitted without Workloads

	w.cluster.Apply(t, "dev/crds/workloads.yaml")
	w.eventually(c, "md", admission(target.AdmissionPending))

	workloads := w.client.Dynamic.Resource(workloadResource()).Namespace(w.namespace)
	_, err := workloads.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": workloadResource().GroupVersion().String(), "kind": "Workload",
		"metadata": map[string]any{"name": "wl", "namespace": w.namespace, "ownerReferences": []any{map[string]any{
			"apiVersion": "v1", "kind": "Pod", "name": pod.Name, "uid": string(pod.UID)}}},
		"spec": map[string]any{},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = workloads.Patch(t.Context(), "wl", types.MergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Admitted","status":"True","reason":"Admitted","message":"","lastTransitionTime":"2026-11-30T06:00:00Z"}]}}`),
		metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	w.eventually(c, "md", admission(target.AdmissionGranted))

	w.leavesWorkload(t, c, workloads)
	require.NoError(t, workloads.Delete(t.Context(), "wl", metav1.DeleteOptions{}))
	w.eventually(c, "md", admission(target.AdmissionPending))
	w.cluster.Kubectl(t, "delete", "-f", "dev/crds/workloads.yaml")
	w.eventually(c, "md", admission(target.AdmissionGranted))
}

// leavesWorkload shows that a Workload whose Pod is gone is seen until it is gone itself (D32). Its finalizer, as Kueue's, keeps it
// from being collected.
func (w *world) leavesWorkload(t *testing.T, c *Cache, workloads dynamic.ResourceInterface) {
	left := func(n int) func(*target.Snapshot) bool {
		return func(s *target.Snapshot) bool { return s != nil && len(s.Instances) == 1+n }
	}
	_, err := workloads.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": workloadResource().GroupVersion().String(), "kind": "Workload",
		"metadata": map[string]any{"name": "left", "namespace": w.namespace, "finalizers": []any{"example.com/in-use"}, "ownerReferences": []any{map[string]any{
			"apiVersion": "v1", "kind": "Pod", "name": "md-prefill-x7k2p", "uid": "00000000-0000-0000-0000-000000000001"}}},
		"spec": map[string]any{"podSets": []any{map[string]any{"name": "prefill", "count": int64(1)}}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.eventually(c, "md", left(1))
	err = workloads.Delete(t.Context(), "left", metav1.DeleteOptions{})
	require.NoError(t, err)
	_, err = workloads.Patch(t.Context(), "left", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	w.eventually(c, "md", left(0))
}

// recorder keeps what changes were told.
type recorder struct {
	mu   sync.Mutex
	told []string
}

func (r *recorder) note(what string, name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, what+" "+name.Name)
}

func (r *recorder) has(what string) func() bool {
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for i, told := range r.told {
			if told == what {
				r.told = append(r.told[:i], r.told[i+1:]...)
				return true
			}
		}
		return false
	}
}

func TestChangesThatMatterAreTold(t *testing.T) {
	w := newWorld(t)
	c, r := w.cache(), &recorder{}
	s := w.scaler("s", "md")
	require.Eventually(t, func() bool { return c.Scaler(w.name("s")) != nil }, patience, tick)
	require.NoError(t, c.Subscribe(t.Context(), Changes{
		Scaler:   func(s *workerv1.ModelDeploymentScaler) { r.note("scaler", nameOf(s)) },
		Target:   func(name types.NamespacedName) { r.note("target", name) },
		Sampling: func(name types.NamespacedName) { r.note("sampling", name) },
		Samplers: func() { r.note("samplers", w.name("")) },
	}, zaptest.NewLogger(t)))

	require.Eventually(t, r.has("scaler s"), patience, tick, "what is there is told first")
	s, err := w.writer().WriteStatus(t.Context(), s, workerv1.ModelDeploymentScalerStatus{ObservedGeneration: 1})
	require.NoError(t, err)
	s.Spec.Suspend = true
	_, err = w.client.Scalers(w.namespace).Update(t.Context(), s, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, r.has("scaler s"), patience, tick, "an edit is told")

	d := w.deploy("md", nil)
	require.Eventually(t, r.has("target md"), patience, tick)
	pod := w.pod(d, "prefill", 0, nil, true)
	require.Eventually(t, r.has("sampling md"), patience, tick)
	zero := int64(0)
	require.NoError(t, w.client.Core.CoreV1().Pods(w.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero}))
	require.NoError(t, w.client.Targets(w.namespace).Delete(t.Context(), "md", metav1.DeleteOptions{}))
	require.Eventually(t, r.has("target md"), patience, tick)
	require.NoError(t, w.client.Scalers(w.namespace).Delete(t.Context(), "s", metav1.DeleteOptions{}))
	require.Eventually(t, r.has("scaler s"), patience, tick)
	require.Never(t, r.has("scaler s"), 200*time.Millisecond, tick, "a status write is not told")
}

func TestATombstoneTellsWhatIsGone(t *testing.T) {
	r := &recorder{}
	handler := onChange(zaptest.NewLogger(t), func(old, new *cachedTarget) {
		require.Nil(t, new)
		r.note("gone", nameOf(old))
	})
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/md", Obj: &cachedTarget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "md"}}})
	require.True(t, r.has("gone md")())
	for _, held := range []any{nil, &corev1.Pod{}, cache.DeletedFinalStateUnknown{Key: "ns/md"}} {
		handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/md", Obj: held}) // said in the log, and no reason to end
		handler.OnDelete(held)
	}
	require.Empty(t, r.told)
}

func TestATargetThatCannotBeReadIsAnErrorNotAGuess(t *testing.T) {
	broken := newCachedTarget(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "md", "namespace": "ns"},
		"spec":     map[string]any{"roles": []any{map[string]any{"name": "a", "replicas": "many"}}},
	}})
	_, err := (&Cache{}).snapshot(broken)
	require.ErrorContains(t, err, "replicas is many")
}
