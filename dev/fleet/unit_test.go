package fleet

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"gpustack.ai/model-deployment-scaler/internal/sim"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

func TestOptionsAreChecked(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Options)
		fails  string
	}{
		{"those for a demonstration are fine", func(*Options) {}, ""},
		{"no API server", func(o *Options) { o.Config = nil }, "config is missing"},
		{"addresses that are not our own", func(o *Options) { o.PodCIDR = netip.MustParsePrefix("10.0.0.0/8") }, "not a range of IPv4 loopback addresses"},
		{"no addresses", func(o *Options) { o.PodCIDR = netip.Prefix{} }, "not a range of IPv4 loopback addresses"},
		{"no tick", func(o *Options) { o.Tick = 0 }, "tick 0s is not positive"},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := NewOptions(&rest.Config{Host: "127.0.0.1:1"}, netip.MustParsePrefix("127.200.128.0/17"))
			row.change(&o)
			_, err := New(o)
			if row.fails == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.fails)
		})
	}
}

func TestAddresses(t *testing.T) {
	a := newAddresses(netip.MustParsePrefix("127.200.128.0/30"))
	first, err := a.take("a")
	require.NoError(t, err)
	require.Equal(t, "127.200.128.1", first.String())
	again, err := a.take("a")
	require.NoError(t, err)
	require.Equal(t, first, again, "a Pod keeps its address")
	for _, pod := range []string{"b", "c"} {
		_, err = a.take(pod)
		require.NoError(t, err)
	}
	_, err = a.take("d")
	require.ErrorContains(t, err, "all 3 of 127.200.128.0/30 are in use")
	a.giveBack("b")
	back, err := a.take("d")
	require.NoError(t, err)
	require.Equal(t, "127.200.128.2", back.String())
}

func TestRoleNamesItsPort(t *testing.T) {
	d, err := parse(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "qwen", "namespace": "default", "uid": "u"},
		"spec": map[string]any{"roles": []any{
			map[string]any{"name": "a", "ports": []any{map[string]any{"port": int64(8200)}}},
			map[string]any{"name": "b", "command": []any{"serve"}},
		}},
	}})
	require.NoError(t, err)
	require.Equal(t, 8200, d.port("a"))
	require.Equal(t, enginePort, d.port("b"))
	require.Equal(t, "qwen", d.model)

	managed, unmanaged := newPod(d, sim.Instance{Role: d.Roles[0]}, 0), newPod(d, sim.Instance{Role: d.Roles[1]}, 0)
	require.Equal(t, "8200", managed.Annotations[target.PortAnnotation])
	require.NotContains(t, unmanaged.Annotations, target.ScrapeAnnotation, "a role with a command of its own is not scraped")
}

func TestPodStatusKeepsItsTimes(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	address, begin := netip.MustParseAddr("127.200.128.1"), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	pod.Status = podStatus(pod, sim.Instance{}, address, false, begin)
	require.Equal(t, pod.Status, podStatus(pod, sim.Instance{}, address, false, begin.Add(time.Minute)), "nothing has changed")

	ready := podStatus(pod, sim.Instance{}, address, true, begin.Add(time.Minute))
	require.Equal(t, begin, ready.StartTime.Time)
	require.Equal(t, pod.Status.ContainerStatuses[0].ContainerID, ready.ContainerStatuses[0].ContainerID)
	require.Equal(t, pod.Status.Conditions[0], ready.Conditions[0], "it was scheduled before")
	require.Equal(t, begin.Add(time.Minute), ready.Conditions[3].LastTransitionTime.Time)

	restarted := podStatus(pod, sim.Instance{Restarts: 1}, address, false, begin.Add(time.Hour))
	require.NotEqual(t, pod.Status.ContainerStatuses[0].ContainerID, restarted.ContainerStatuses[0].ContainerID)
	require.Equal(t, int32(1), restarted.ContainerStatuses[0].RestartCount)
	require.Equal(t, begin.Add(time.Hour), restarted.ContainerStatuses[0].State.Running.StartedAt.Time)
}
