package e2e

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/fleet"
	"gpustack.ai/model-deployment-scaler/dev/runner"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// ramping is a bound deployment at 1 replica whose readings arrive, about to grow.
func ramping(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.deploy("chat", "vLLM", 1, quiet)
	s.scale(policy{name: "chat", target: "chat", mode: workerv1.ModeActive, min: 1, max: 5})
	s.bound("chat", "chat")
	s.reports("chat", workerv1.ConditionMetricsReady, metav1.ConditionTrue, workerv1.ReasonObserved)
	return s
}

// owner waits until this test's role is the only one, and gives the sampler that has it.
func (s *stage) owner() (owner runner.Pod) {
	s.t.Helper()
	s.eventually("one sampler has the role", func() bool {
		all := 0.0
		for _, p := range s.Pods("sampler") {
			roles, _ := s.metric(p, "mds_sampler_roles", nil)
			if all += roles; roles == 1 {
				owner = p
			}
		}
		return all == 1
	})
	return owner
}

// freeze stops the program of a Pod, which goes on at the end of the test at the latest.
func (s *stage) freeze(pod string) {
	s.t.Helper()
	require.NoError(s.t, s.Runner.Signal(pod, syscall.SIGSTOP))
	s.t.Cleanup(func() { s.thaw(pod) })
}

func (s *stage) thaw(pod string) {
	s.t.Helper()
	require.NoError(s.t, s.Runner.Signal(pod, syscall.SIGCONT))
}

func TestRolesMoveWhenASamplerIsLost(t *testing.T) {
	faults := []struct {
		name   string
		strike func(*stage, runner.Pod)
	}{
		{"because it hangs", func(s *stage, p runner.Pod) { s.freeze(p.Name) }},
		{"because it is killed", func(s *stage, p runner.Pod) {
			require.NoError(s.t, s.Runner.Signal(p.Name, syscall.SIGKILL))
		}},
	}
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			s := ramping(t)
			record := s.record("chat")
			tt.strike(s, s.owner())
			s.Fleet.SetTraffic(s.namespace, "chat", busy)
			s.eventually("observation goes on and it grows", func() bool { return s.replicas("chat") >= 4 })
			record.orderly(1, 5, 4)
		})
	}
}

func TestCommitsAreTriedAgainWhileTheWebhookIsUnreachable(t *testing.T) {
	s := ramping(t)
	record := s.record("chat")
	failed := map[string]string{"kind": "up", "outcome": "failed"}
	before := s.all("decider", "mds_decider_commits_total", failed)
	for _, p := range s.Pods("webhook") {
		s.freeze(p.Name)
	}
	s.Fleet.SetTraffic(s.namespace, "chat", busy)
	s.eventually("commits fail, and are tried again", func() bool {
		return s.all("decider", "mds_decider_commits_total", failed) >= before+2
	})
	require.Contains(t, s.Logs(1000), "failed calling webhook", "the log says why")
	require.Equal(t, int32(1), s.replicas("chat"))
	_, err := s.Targets(s.namespace).Patch(t.Context(), "chat", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	require.NoError(t, err, "writes that are not guarded go on")

	for _, p := range s.Pods("webhook") {
		s.thaw(p.Name)
	}
	s.eventually("it grows", func() bool { return s.replicas("chat") >= 4 })
	record.orderly(1, 5, 4)
}

func TestTheSystemGoesOnAfterTheAPIServerWasAway(t *testing.T) {
	s := ramping(t)
	record := s.record("chat")
	away := time.Now()
	require.NoError(t, s.SignalPlane(syscall.SIGSTOP))
	t.Cleanup(func() { require.NoError(t, s.SignalPlane(syscall.SIGCONT)) })
	s.Fleet.SetTraffic(s.namespace, "chat", busy)
	s.eventually("it has been away for longer than a leader may be without its Lease", func() bool {
		return !s.answers() && time.Since(away) > 11*time.Second
	})
	scraped := s.all("sampler", "mds_sampler_scrapes_total", nil)
	s.eventually("engines are read as before", func() bool {
		return s.all("sampler", "mds_sampler_scrapes_total", nil) > scraped
	})
	require.False(t, s.answers())
	require.NoError(t, s.SignalPlane(syscall.SIGCONT))
	s.eventually("it answers again", s.answers)
	s.eventually("it grows", func() bool { return s.replicas("chat") >= 4 })
	record.orderly(1, 5, 4)
}

// answers says whether the API server does.
func (s *stage) answers() bool {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()
	return s.Kube.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
}

func TestABrokenEngineDisturbsNobodyElse(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, name := range []string{"broken", "sound"} {
		s.deploy(name, "vLLM", 2, quiet)
		s.scale(policy{name: name, target: name, mode: workerv1.ModeActive, min: 2, max: 5})
		s.bound(name, name)
		s.reports(name, workerv1.ConditionMetricsReady, metav1.ConditionTrue, workerv1.ReasonObserved)
	}
	s.Fleet.SetTraffic(s.namespace, "sound", busy)
	for _, fault := range []fleet.Fault{fleet.Hangs, fleet.Garbage} {
		require.NoError(t, s.Fleet.Break(s.namespace, s.pod("broken", "server", "0"), fault))
		s.reports("broken", workerv1.ConditionMetricsReady, metav1.ConditionFalse, workerv1.ReasonWaitingForMetrics,
			"role server: not every replica is in the readings")
		require.NoError(t, s.Fleet.Break(s.namespace, s.pod("broken", "server", "0"), fleet.Healthy))
		s.reports("broken", workerv1.ConditionMetricsReady, metav1.ConditionTrue, workerv1.ReasonObserved)
	}
	s.eventually("the other deployment grows as ever", func() bool { return s.replicas("sound") >= 4 })
	require.Equal(t, int32(2), s.replicas("broken"), "nothing shrinks nor grows on what is not known")
}

// pod of an instance of one Pod.
func (s *stage) pod(deployment, role, ordinal string) string {
	s.t.Helper()
	selector := fmt.Sprintf("%s,%s=%s,%s=%s", target.PodSelector(deployment), target.ComponentLabel, role, target.OrdinalLabel, ordinal)
	pods, err := s.Kube.CoreV1().Pods(s.namespace).List(s.t.Context(), metav1.ListOptions{LabelSelector: selector})
	require.NoError(s.t, err)
	require.Len(s.t, pods.Items, 1)
	return pods.Items[0].Name
}
