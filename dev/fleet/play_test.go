package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gpustack.ai/model-deployment-scaler/internal/sim"
)

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := client.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

// value of the first series that begins like this.
func value(t *testing.T, page, series string) float64 {
	t.Helper()
	match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + `[^ ]* (.*)$`).FindStringSubmatch(page)
	require.NotNil(t, match, series)
	v, err := strconv.ParseFloat(match[1], 64)
	require.NoError(t, err)
	return v
}

// watchRetirement collects the states of retirement of a deployment, each once, until the context ends.
func (s *stage) watchRetirement(deployment string) (seen func() []string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := s.dynamic.Resource(deployments).Namespace(s.namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + deployment})
	require.NoError(s.t, err)
	var mu sync.Mutex
	var list []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			u, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			entry := "none"
			if r, found, _ := unstructured.NestedMap(u.Object, "status", "retirement"); found {
				entry = fmt.Sprintf("%v %v", r["replicaOrdinal"], r["state"])
			}
			mu.Lock()
			if len(list) == 0 || list[len(list)-1] != entry {
				list = append(list, entry)
			}
			mu.Unlock()
		}
	}()
	s.t.Cleanup(func() {
		cancel()
		<-done
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), list...)
	}
}

func TestDeploymentComesUpScalesAndGoes(t *testing.T) {
	s := newStage(t, func(o *Options) {
		o.World.Quota = map[string]int{"a100": 2}
		o.World.RetirementStep = 2 * time.Second // a status that takes longer to write would leave a step out
	})
	s.SetTraffic(s.namespace, "qwen", anyTraffic)
	s.deploy("qwen", "vLLM", role{name: "server", kind: "Server", replicas: 1})
	s.becomes("qwen", "server/0 ready")
	_, url := s.endpoint("qwen", 0)
	require.Eventually(t, func() bool {
		status, page := fetch(t, url)
		return status == http.StatusOK && len(page) > 30<<10 && value(t, page, "vllm:generation_tokens_total") > 0
	}, patience, often)
	status, _ := fetch(t, strings.Replace(url, "/metrics", "/health", 1))
	require.Equal(t, http.StatusOK, status)

	seen := s.watchRetirement("qwen")
	s.scale("qwen", 0, 3)
	s.becomes("qwen", "server/0 ready", "server/1 ready", "server/2 pending")
	s.hasStatus("qwen", "Degraded", "2S", 3, 2, 2)
	s.SetQuota("a100", 3)
	s.becomes("qwen", "server/0 ready", "server/1 ready", "server/2 ready")
	s.hasStatus("qwen", "Ready", "3S", 3, 3, 3)

	s.scale("qwen", 0, 4)
	s.becomes("qwen", "server/0 ready", "server/1 ready", "server/2 ready", "server/3 pending")
	s.scale("qwen", 0, 3)
	s.becomes("qwen", "server/0 ready", "server/1 ready", "server/2 ready")
	require.Equal(t, []string{"none"}, seen(), "what was never admitted goes without a protocol")

	s.scale("qwen", 0, 2)
	s.becomes("qwen", "server/0 ready", "server/1 ready")
	s.hasStatus("qwen", "Ready", "2S", 2, 2, 2)
	require.Eventually(t, func() bool { return len(seen()) == 8 }, patience, often)
	require.Equal(t, []string{"none", "2 Admitted", "2 Disqualified", "2 Withdrawing", "2 Draining", "2 Deleting", "2 Settling", "none"}, seen())
	s.workloads(2)
	require.Zero(t, s.Totals(s.namespace, "qwen").Lost)
}

// hasStatus waits for a status of the first role.
func (s *stage) hasStatus(deployment, phase, summary string, desired, ready, reserved int64) {
	s.t.Helper()
	want := []any{phase, summary, desired, ready, reserved}
	var got []any
	require.Eventually(s.t, func() bool {
		u, err := s.dynamic.Resource(deployments).Namespace(s.namespace).Get(s.t.Context(), deployment, metav1.GetOptions{})
		require.NoError(s.t, err)
		status, _, _ := unstructured.NestedMap(u.Object, "status")
		roles, _ := status["roles"].([]any)
		role, _ := roles[0].(map[string]any)
		got = []any{status["phase"], status["roleSummary"], role["desired"], role["ready"], role["quotaReserved"]}
		return fmt.Sprint(got) == fmt.Sprint(want)
	}, patience, often, "want %v, have %v", want, &got)
}

func (s *stage) workloads(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		list, err := s.dynamic.Resource(workloads).Namespace(s.namespace).List(s.t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == n
	}, patience, often)
}

func TestNothingIsLeft(t *testing.T) {
	s := newStage(t, nil)
	s.deploy("qwen", "vLLM", role{name: "server", kind: "Server", replicas: 2})
	s.becomes("qwen", "server/0 ready", "server/1 ready")
	t.Run("of a deleted deployment", func(t *testing.T) {
		require.NoError(t, s.dynamic.Resource(deployments).Namespace(s.namespace).Delete(t.Context(), "qwen", metav1.DeleteOptions{}))
		s.workloads(0)
		s.empty(t.Context())
	})
	t.Run("in a deleted namespace", func(t *testing.T) {
		s.deploy("qwen", "vLLM", role{name: "server", kind: "Server", replicas: 2})
		s.becomes("qwen", "server/0 ready", "server/1 ready")
		require.NoError(t, s.kube.CoreV1().Namespaces().Delete(t.Context(), s.namespace, metav1.DeleteOptions{}))
		s.empty(t.Context())
		require.Eventually(t, func() bool {
			_, err := s.kube.CoreV1().Namespaces().Get(t.Context(), s.namespace, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}, patience, often)
	})
}

func TestPairOfTwoPodInstances(t *testing.T) {
	s := newStage(t, nil)
	s.SetTraffic(s.namespace, "pair", anyTraffic)
	s.deploy("pair", "SGLang", role{name: "prefill", kind: "Prefill", replicas: 1}, role{name: "decode", kind: "Decode", replicas: 1, size: 2})
	s.becomes("pair", "prefill/0 ready", "decode/0 ready")
	_, url := s.endpoint("pair", 1)
	require.Eventually(t, func() bool {
		_, page := fetch(t, url)
		return strings.Contains(page, "\nsglang:generation_tokens_total")
	}, patience, often)

	member, err := s.kube.CoreV1().Pods(s.namespace).Get(t.Context(), "pair-decode-r0-m1", metav1.GetOptions{})
	require.NoError(t, err)
	status, _ := fetch(t, "http://"+member.Status.PodIP+":8000/metrics")
	require.Equal(t, http.StatusNotFound, status, "only the leader has metrics")
	require.Equal(t, "decode", member.Labels["modeldeployment.gpustack.ai/role-kind"])
	s.workloads(2)
	s.scale("pair", 1, 2)
	s.becomes("pair", "prefill/0 ready", "decode/0 ready", "decode/1 ready")
	s.scale("pair", 1, 1)
	s.becomes("pair", "prefill/0 ready", "decode/0 ready")
}

func TestAbortedRetirementIsTakenBack(t *testing.T) {
	s := newStage(t, nil)
	s.SetTraffic(s.namespace, "qwen", sim.Constant(2, 500, 1500)) // requests of half a minute keep it draining
	s.deploy("qwen", "vLLM", role{name: "server", kind: "Server", replicas: 2})
	s.becomes("qwen", "server/0 ready", "server/1 ready")
	require.Eventually(t, func() bool { return s.Instances(s.namespace, "qwen")[1].Running > 0 }, patience, often)
	seen := s.watchRetirement("qwen")
	s.scale("qwen", 0, 1)
	require.Eventually(t, func() bool { return strings.Contains(fmt.Sprint(seen()), "1 Draining") }, patience, often)
	require.True(t, s.Abort(s.namespace, "qwen", "the test wants it"))
	require.Eventually(t, func() bool { return strings.HasSuffix(fmt.Sprint(seen()), "1 Aborted]") }, patience, often)
	s.scale("qwen", 0, 2)
	require.Eventually(t, func() bool { return strings.HasSuffix(fmt.Sprint(seen()), "1 Aborted none]") }, patience, often)
	s.becomes("qwen", "server/0 ready", "server/1 ready")
}

func TestPodsBreak(t *testing.T) {
	s := newStage(t, nil)
	s.SetTraffic(s.namespace, "qwen", anyTraffic)
	s.deploy("qwen", "vLLM", role{name: "server", kind: "Server", replicas: 1})
	s.becomes("qwen", "server/0 ready")
	pod, url := s.endpoint("qwen", 0)

	t.Run("and answer with an error", func(t *testing.T) {
		require.NoError(t, s.Break(s.namespace, pod, Failing))
		status, _ := fetch(t, url)
		require.Equal(t, http.StatusInternalServerError, status)
	})
	t.Run("and answer with garbage", func(t *testing.T) {
		require.NoError(t, s.Break(s.namespace, pod, Garbage))
		status, page := fetch(t, url)
		require.Equal(t, http.StatusOK, status)
		require.NotContains(t, page, "vllm:")
	})
	t.Run("and never answer", func(t *testing.T) {
		require.NoError(t, s.Break(s.namespace, pod, Hangs))
		_, err := client.Get(url)
		require.ErrorContains(t, err, "Client.Timeout exceeded")
	})
	t.Run("and never stop answering", func(t *testing.T) {
		require.NoError(t, s.Break(s.namespace, pod, Endless))
		response, err := client.Get(url)
		require.NoError(t, err)
		n, _ := io.Copy(io.Discard, io.LimitReader(response.Body, 20<<20))
		require.NoError(t, response.Body.Close())
		require.Equal(t, int64(20<<20), n)
	})
	t.Run("and heal", func(t *testing.T) {
		require.NoError(t, s.Break(s.namespace, pod, Healthy))
		_, page := fetch(t, url)
		require.Contains(t, page, "vllm:num_requests_running")
	})
	require.ErrorContains(t, s.Break(s.namespace, "nobody", Hangs), "does not serve")
}

func TestRestartedContainerCountsFromZero(t *testing.T) {
	s := newStage(t, nil)
	s.SetTraffic(s.namespace, "qwen", anyTraffic)
	s.deploy("qwen", "vLLM", role{name: "server", kind: "Server", replicas: 1})
	s.becomes("qwen", "server/0 ready")
	pod, url := s.endpoint("qwen", 0)
	require.Eventually(t, func() bool {
		_, page := fetch(t, url)
		return value(t, page, "vllm:prompt_tokens_total") > 5000
	}, patience, often)
	_, before := s.look("qwen")
	s.SetTraffic(s.namespace, "qwen", nil)
	require.NoError(t, s.Restart(s.namespace, pod))
	require.Eventually(t, func() bool {
		_, now := s.look("qwen")
		return now[0].Ready && now[0].Endpoints[0].Incarnation != before[0].Endpoints[0].Incarnation
	}, patience, often)
	_, after := s.endpoint("qwen", 0)
	require.Equal(t, url, after, "the Pod and its address stay")
	_, page := fetch(t, after)
	require.Less(t, value(t, page, "vllm:prompt_tokens_total"), 5000.)
}

func TestEvictedInstanceComesBackWhenThereIsRoom(t *testing.T) {
	s := newStage(t, func(o *Options) { o.World.Quota = map[string]int{"a100": 2} })
	s.deploy("qwen", "vLLM", role{name: "server", kind: "Server", replicas: 2})
	s.becomes("qwen", "server/0 ready", "server/1 ready")
	pod, _ := s.endpoint("qwen", 0)
	w, err := s.dynamic.Resource(workloads).Namespace(s.namespace).Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: new(int64(patience.Seconds()))})
	require.NoError(t, err)
	s.SetQuota("a100", 1)
	require.NoError(t, s.Evict(s.namespace, pod))
	told := false
	for event := range w.ResultChan() {
		if told = told || strings.Contains(fmt.Sprint(event.Object), "type:Evicted"); told {
			w.Stop()
		}
	}
	require.True(t, told, "a Workload says that it was evicted")
	s.becomes("qwen", "server/0 pending", "server/1 ready")
	s.workloads(2)
	s.SetQuota("a100", 2)
	s.becomes("qwen", "server/0 ready", "server/1 ready")
	again, _ := s.endpoint("qwen", 0)
	require.NotEqual(t, pod, again, "its Pod was replaced")
	require.ErrorContains(t, s.Evict(s.namespace, pod), "does not serve")
}

func TestPodDeletedByHandIsReplaced(t *testing.T) {
	s := newStage(t, nil)
	s.deploy("qwen", "vLLM", role{name: "server", kind: "Server", replicas: 2})
	s.becomes("qwen", "server/0 ready", "server/1 ready")
	pod, _ := s.endpoint("qwen", 0)
	require.NoError(t, s.kube.CoreV1().Pods(s.namespace).Delete(t.Context(), pod, metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		_, instances := s.look("qwen")
		return len(instances) == 2 && instances[0].Ready && instances[0].Endpoints[0].Name != pod
	}, patience, often)
	s.workloads(2)
}

func TestServerGoesAway(t *testing.T) {
	s := newStage(t, nil)
	s.SetTraffic(s.namespace, "qwen", anyTraffic)
	s.deploy("qwen", "vLLM", role{name: "server", kind: "Server", replicas: 1})
	s.becomes("qwen", "server/0 ready")
	_, url := s.endpoint("qwen", 0)
	s.cut.Store(true)
	s.scale("qwen", 0, 2)
	_, page := fetch(t, url)
	tokens := value(t, page, "vllm:generation_tokens_total")
	require.Eventually(t, func() bool {
		_, page := fetch(t, url)
		return value(t, page, "vllm:generation_tokens_total") > tokens+500
	}, patience, often, "engines go on")
	s.cut.Store(false)
	s.becomes("qwen", "server/0 ready", "server/1 ready")
}

func TestSteadyFleetWritesNothing(t *testing.T) {
	s := newStage(t, nil)
	s.SetTraffic(s.namespace, "qwen", anyTraffic)
	s.deploy("qwen", "vLLM", role{name: "server", kind: "Server", replicas: 2})
	s.becomes("qwen", "server/0 ready", "server/1 ready")
	s.hasStatus("qwen", "Ready", "2S", 2, 2, 2)
	before, err := s.versions(t.Context())
	require.NoError(t, err)
	require.Never(t, func() bool {
		now, err := s.versions(t.Context())
		return err == nil && now != before // the last look may be cut off by the end of the test
	}, 40*often, 2*often)
}

// versions of everything that the fleet writes.
func (s *stage) versions(ctx context.Context) (string, error) {
	text := ""
	pods, err := s.kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, pod := range pods.Items {
		text += pod.Name + pod.ResourceVersion + " "
	}
	for _, resource := range []schema.GroupVersionResource{deployments, workloads} {
		list, err := s.dynamic.Resource(resource).Namespace(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, u := range list.Items {
			text += u.GetName() + u.GetResourceVersion() + " "
		}
	}
	return text, nil
}
