package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/harness"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/sim"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

const (
	// patience covers a minute that a policy waits, and two failovers in a row, on a busy machine.
	patience = 3 * time.Minute
	often    = 200 * time.Millisecond
)

// A request takes 2 s, so the queue depth is twice the rate; replicas should carry 8 each.
var (
	quiet = sim.Constant(2, 200, 120)  // 4 requests at a time: 1 replica
	busy  = sim.Constant(16, 200, 120) // 32 requests at a time: 4 replicas
)

// stage is a namespace of the shared system for one test.
type stage struct {
	*harness.Cluster
	t         *testing.T
	namespace string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return onStage(t, system(t))
}

// onStage is one of another system than the shared one.
func onStage(t *testing.T, cluster *harness.Cluster) *stage {
	t.Helper()
	s := &stage{Cluster: cluster, t: t}
	namespace, err := s.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	s.namespace = namespace.Name
	t.Cleanup(s.end)
	return s
}

// end shows what the test leaves when it failed, and deletes it.
func (s *stage) end() {
	ctx := context.Background() // the test's own has ended
	if s.t.Failed() {
		s.show(ctx)
	}
	require.NoError(s.t, s.Scalers(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	require.NoError(s.t, s.Targets(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	require.NoError(s.t, s.Kube.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}))
}

func (s *stage) show(ctx context.Context) {
	for _, client := range []dynamic.ResourceInterface{s.Scalers(s.namespace), s.Targets(s.namespace)} {
		list, err := client.List(ctx, metav1.ListOptions{})
		require.NoError(s.t, err)
		for i := range list.Items {
			list.Items[i].SetManagedFields(nil)
			text, err := yaml.Marshal(list.Items[i].Object)
			require.NoError(s.t, err)
			s.t.Logf("\n%s", text)
		}
	}
	events, err := s.Kube.EventsV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
	require.NoError(s.t, err)
	for _, e := range events.Items {
		s.t.Log(e.EventTime.Format("15:04:05"), e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note)
	}
}

// deploy a model of one Server role, with traffic from the start.
func (s *stage) deploy(name, engine string, replicas int, traffic sim.Traffic) {
	s.t.Helper()
	s.Fleet.SetTraffic(s.namespace, name, traffic)
	require.NoError(s.t, s.Apply(s.t.Context(), s.namespace, fmt.Sprintf(`
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata: {name: %s}
spec:
  model: {name: Qwen/Qwen3-8B}
  engine: {name: %s}
  roles: [{name: server, kind: Server, replicas: %d, instanceType: a100}]
`, name, engine, replicas)))
}

// policy is a scaler of QueueDepth, as quick as the API allows.
type policy struct {
	name, target string
	mode         workerv1.Mode
	min, max     int
	step         int // of one pass in either direction; 0: the defaults
}

func (s *stage) scale(p policy) {
	s.t.Helper()
	steps := ""
	if p.step > 0 {
		steps = fmt.Sprintf("stepPolicy: {type: Pods, value: %d}", p.step)
	}
	require.NoError(s.t, s.Apply(s.t.Context(), s.namespace, fmt.Sprintf(`
apiVersion: worker.gpustack.ai/v1
kind: ModelDeploymentScaler
metadata: {name: %s}
spec:
  targetRef: {name: %s}
  mode: %s
  sampling: {intervalSeconds: 5, pendingTimeoutSeconds: 60}
  roles: [{name: server, minReplicas: %d, maxReplicas: %d}]
  algorithm:
    proportional: {metric: QueueDepth, roleTargets: [{name: server, target: "8"}]}
  behavior:
    scaleUp: {%s}
    scaleDown: {stabilizationWindowSeconds: 10, %s}
`, p.name, p.target, p.mode, p.min, p.max, steps, steps)))
}

// observe deploys so many quiet models, chat-0 and on, with scalers that only watch, and waits until all are observed.
func (s *stage) observe(models int) {
	s.t.Helper()
	for i := range models {
		name := fmt.Sprintf("chat-%d", i)
		s.deploy(name, "vLLM", 1, quiet)
		s.scale(policy{name: name, target: name, mode: workerv1.ModeShadow, min: 1, max: 3})
	}
	for i := range models {
		s.reports(fmt.Sprintf("chat-%d", i), workerv1.ConditionMetricsReady, metav1.ConditionTrue, workerv1.ReasonObserved)
	}
}

// edit merges a patch into a scaler.
func (s *stage) edit(scaler, patch string) {
	s.t.Helper()
	_, err := s.Scalers(s.namespace).Patch(s.t.Context(), scaler, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(s.t, err)
}

// eventually polls in the test's own goroutine, so that conditions may require, too.
func (s *stage) eventually(what string, condition func() bool) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), often, patience, true, func(context.Context) (bool, error) { return condition(), nil })
	require.NoError(s.t, err, what)
}

// kill the decider that holds the Lease by an identity. Another test may have killed it a moment ago: its Pod's next life will do.
func (s *stage) kill(holder string) {
	s.t.Helper()
	pod, _, _ := strings.Cut(holder, "_")
	s.eventually(pod+" runs, and is killed", func() bool { return s.Runner.Signal(pod, syscall.SIGKILL) == nil })
}

// scaler as it is now; an API server that is away for a moment is asked again.
func (s *stage) scaler(name string) *workerv1.ModelDeploymentScaler {
	s.t.Helper()
	scaler, err := s.Scaler(s.t.Context(), s.namespace, name)
	require.NoError(s.t, err)
	return scaler
}

func (s *stage) deployment(name string) target.Deployment {
	s.t.Helper()
	d, err := s.Target(s.t.Context(), s.namespace, name)
	require.NoError(s.t, err)
	return d
}

func (s *stage) replicas(name string) int32 { return s.deployment(name).Roles[0].Replicas }

// counts says whether the roles have these replicas, in the order of the spec.
func (s *stage) counts(name string, want ...int32) bool {
	return slices.EqualFunc(s.deployment(name).Roles, want, func(r target.Role, n int32) bool { return r.Replicas == n })
}

// reports waits until a condition of a scaler is as wanted, with a message that contains the words.
func (s *stage) reports(scaler, kind string, status metav1.ConditionStatus, reason string, words ...string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("scaler %s says %s=%s, %s %q", scaler, kind, status, reason, words), func() bool {
		now := s.scaler(scaler)
		c := meta.FindStatusCondition(now.Status.Conditions, kind)
		return c != nil && c.ObservedGeneration == now.Generation && c.Status == status && c.Reason == reason &&
			!slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(c.Message, w) })
	})
}

// bound waits until a scaler owns its target, and gives the term.
func (s *stage) bound(scaler, target string) int64 {
	s.t.Helper()
	s.reports(scaler, workerv1.ConditionActive, metav1.ConditionTrue, workerv1.ReasonActive)
	binding, err := fence.ParseBinding(s.deployment(target).Annotations[fence.BindingAnnotation])
	require.NoError(s.t, err)
	require.Equal(s.t, scaler, binding.ScalerName)
	return binding.Term
}

// event waits for an event about a scaler.
func (s *stage) event(scaler, reason string) {
	s.t.Helper()
	s.eventually("event "+reason, func() bool {
		events, err := s.Kube.EventsV1().Events(s.namespace).List(s.t.Context(), metav1.ListOptions{})
		require.NoError(s.t, err)
		for _, e := range events.Items {
			if e.Reason == reason && e.Regarding.Name == scaler && strings.TrimSpace(e.Note) != "" {
				return true
			}
		}
		return false
	})
}
