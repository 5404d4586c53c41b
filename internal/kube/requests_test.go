package kube

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestRequestsAreCountedByMethodAndCode(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }))
	registry := prometheus.NewRegistry()
	config := &rest.Config{Host: server.URL}
	Instrument(config, registry)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)

	_, err = client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
	require.Error(t, err)
	server.Close()
	require.Error(t, client.CoreV1().Pods("ns").Delete(t.Context(), "p", metav1.DeleteOptions{}))

	families, err := registry.Gather()
	require.NoError(t, err)
	counts := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "rest_client_requests_total" {
				counts[m.GetLabel()[1].GetValue()+" "+m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{"GET 404": 1, "DELETE <error>": 1}, counts)
	n, err := testutil.GatherAndCount(registry, "rest_client_request_duration_seconds")
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func TestLeasesHaveAConnectionOfTheirOwn(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	core, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	leases, err := kubernetes.NewForConfig(ownConnection(config))
	require.NoError(t, err)
	for range 3 {
		for _, client := range []kubernetes.Interface{core, leases} {
			_, err := client.CoordinationV1().Leases("ns").Get(t.Context(), "decider", metav1.GetOptions{})
			require.Error(t, err)
		}
	}
	require.EqualValues(t, 2, connections.Load())
}
