package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/sim"
)

func TestTheStandbyGoesOnWhenTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.deploy("chat", "vLLM", 1, quiet)
	s.scale(policy{name: "chat", target: "chat", mode: workerv1.ModeActive, min: 1, max: 5, step: 1})
	term := s.bound("chat", "chat")
	record := s.record("chat")
	s.Fleet.SetTraffic(s.namespace, "chat", sim.Constant(20, 200, 120)) // 40 requests at a time: 5 replicas
	s.eventually("the ramp has begun", func() bool { return s.replicas("chat") >= 2 })

	var killed string
	s.eventually("a decider leads", func() bool {
		var err error
		killed, err = s.Holder(t.Context())
		return err == nil
	})
	s.kill(killed)
	s.eventually("another process leads", func() bool { // the standby, or the killed copy when it is back before the Lease ends
		holder, err := s.Holder(t.Context())
		return err == nil && holder != killed
	})
	s.eventually("the ramp goes on to its end", func() bool { return s.replicas("chat") == 5 })
	s.Fleet.SetTraffic(s.namespace, "chat", quiet)
	s.eventually("and down", func() bool { return s.replicas("chat") < 5 })

	require.Equal(t, term, s.bound("chat", "chat"), "the binding outlives the leader")
	decisions := record.orderly(1, 5, 1)
	require.NotEqual(t, decisions[0].Epoch, decisions[len(decisions)-1].Epoch, "two leaders wrote")
}
