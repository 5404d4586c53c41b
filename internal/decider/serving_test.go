package decider

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

// holder of the Lease, by the name and the address that it gives.
func (w *world) holder() (name, address string) {
	lease, err := w.client.Core.CoordinationV1().Leases(w.namespace).Get(w.t.Context(), "decider", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", ""
	}
	name, address, _ = strings.Cut(*lease.Spec.HolderIdentity, "@")
	return name, address
}

func (w *world) observations(address string) observationv1.ObservationServiceClient {
	w.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, stream.DialOptions(insecure.NewCredentials())...)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	return observationv1.NewObservationServiceClient(conn)
}

// updates reads a watch until a message is as wanted.
func updates(t *testing.T, s grpc.ServerStreamingClient[observationv1.ObservationServiceWatchResponse], wanted func(*observationv1.ObservationServiceWatchResponse) bool) *observationv1.ObservationServiceWatchResponse {
	t.Helper()
	for {
		m, err := s.Recv()
		require.NoError(t, err)
		if wanted(m) {
			return m
		}
	}
}

func TestWhatIsPlannedIsWatchedThroughAnyCopyAndAFailOver(t *testing.T) {
	w := newWorld(t)
	w.sampler.load.Store(8)
	first := w.decide("first")
	w.eventually("the first leads", func() bool { name, _ := w.holder(); return name == "first" })
	_, leader := w.holder()
	w.scale("s", workerv1.ModeActive)
	w.eventually("it is planned", func() bool { return w.condition("s", workerv1.ConditionMetricsReady) == "True/Observed" })

	ctx, cancel := context.WithTimeout(t.Context(), 5*enough)
	defer cancel()
	request := &observationv1.ObservationServiceWatchRequest{Selector: &observationv1.ObservationSelector{Namespace: w.namespace, Scaler: "s", Role: "server"}}
	direct, err := w.observations(leader).Watch(ctx, request)
	require.NoError(t, err)
	snapshot := updates(t, direct, func(m *observationv1.ObservationServiceWatchResponse) bool { return m.GetObservation() != nil }).GetObservation()
	require.Equal(t, "sampler-0", snapshot.GetShard())
	require.Equal(t, "md", snapshot.GetObservation().GetKey().GetDeployment())
	complete := updates(t, direct, func(m *observationv1.ObservationServiceWatchResponse) bool { return m.GetSnapshotComplete() != nil })
	require.Equal(t, "first@"+leader, complete.GetSnapshotComplete().GetLeader())

	standbyAddress := freeAddress(t)
	second := w.decide("second", func(o *Options) { o.GRPCAddress = standbyAddress })
	standby := w.observations(standbyAddress)
	var forwarded grpc.ServerStreamingClient[observationv1.ObservationServiceWatchResponse]
	w.eventually("the standby forwards", func() bool {
		if forwarded, err = standby.Watch(ctx, request); err != nil {
			return false
		}
		_, err = forwarded.Recv()
		return err == nil
	})
	complete = updates(t, forwarded, func(m *observationv1.ObservationServiceWatchResponse) bool { return m.GetSnapshotComplete() != nil })
	require.Equal(t, "first@"+leader, complete.GetSnapshotComplete().GetLeader())
	require.Equal(t, "second@"+standbyAddress, complete.GetSnapshotComplete().GetForwardedBy())

	w.sampler.load.Store(28)
	for _, watch := range []grpc.ServerStreamingClient[observationv1.ObservationServiceWatchResponse]{direct, forwarded} {
		o := updates(t, watch, func(m *observationv1.ObservationServiceWatchResponse) bool {
			return m.GetObservation().GetPlan().GetDecisionId() != ""
		}).GetObservation()
		require.EqualValues(t, 1, o.GetPlan().GetCurrentReplicas(), "the count that was planned on")
		require.EqualValues(t, 4, o.GetPlan().GetRawRecommendedReplicas())
		require.InDelta(t, 28, o.GetObservation().GetRunningRequests(), 0)
		require.NotEmpty(t, o.GetPlan().GetTrace())
	}

	require.NoError(t, first.end(t))
	for _, watch := range []grpc.ServerStreamingClient[observationv1.ObservationServiceWatchResponse]{direct, forwarded} {
		for err = nil; err == nil; _, err = watch.Recv() {
		}
		require.Equal(t, codes.Unavailable, status.Code(err), err)
	}
	w.eventually("the second answers itself", func() bool {
		answer, err := standby.List(ctx, &observationv1.ObservationServiceListRequest{Selector: request.GetSelector()})
		return err == nil && answer.GetLeader() == "second@"+standbyAddress && answer.GetForwardedBy() == "" && len(answer.GetObservations()) == 1
	})

	watch, err := standby.Watch(ctx, request)
	require.NoError(t, err)
	require.NoError(t, w.client.Scalers(w.namespace).Delete(t.Context(), "s", metav1.DeleteOptions{}))
	updates(t, watch, func(m *observationv1.ObservationServiceWatchResponse) bool { return m.GetRemoved().GetScaler() == "s" })
	require.NoError(t, second.end(t))
}

// freeAddress is one that nobody listens on: that of a standby is nowhere to be read.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}
