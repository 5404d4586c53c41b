package decider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// The decider asks the fence about its own write before it sends it. When the two disagree, people are told.
func TestAWriteThatIsWithheldIsCountedAndTold(t *testing.T) {
	told := make(chan eventsv1.Event, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var event eventsv1.Event
		if json.NewDecoder(r.Body).Decode(&event) == nil && strings.HasSuffix(r.URL.Path, "/events") {
			told <- event
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(event)
	}))
	t.Cleanup(server.Close)
	core, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	require.NoError(t, err)
	events, err := kube.NewEvents(t.Context(), &kube.Client{Core: core, Version: "v1"})
	require.NoError(t, err)
	l := &leader{events: events, metrics: newMetrics(prometheus.NewRegistry()), log: zap.NewNop()}
	v := &view{name: testScaler, in: decide.Input{Target: &target.Snapshot{Deployment: target.Deployment{Namespace: testScaler.Namespace, Name: "md"}}}}
	d := decide.Decision{Commit: &decide.Commit{Kind: fence.CommitUp, Why: "because"}}

	refusal := &fence.Refusal{Reason: fence.StaleEpoch, Message: "ModelDeployment ns/md: decision 1 is of another epoch"}
	l.tellWrite(v, d, fmt.Errorf("checking our own write: %w", refusal))

	require.InDelta(t, 1, testutil.ToFloat64(l.metrics.commits.WithLabelValues("up", outcomeWithheld)), 0)
	for range 2 { // on the scaler and on its target
		event := <-told
		require.Equal(t, kube.EventWriteDenied, event.Reason)
		require.Equal(t, "Warning", event.Type)
		require.Equal(t, "checking our own write: "+refusal.Message, event.Note)
	}
}
