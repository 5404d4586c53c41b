package observations

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
)

func TestAWatchIsASnapshotAndThenEveryChange(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		v := s.Lead()
		v.Publish(pass("b", "other", 1, "server"))
		v.Publish(pass("a", "chat", 2, "prefill", "decode"))
		w := s.watch("root", nil)
		require.Equal(t, "a/chat/decode=2", w.next())
		require.Equal(t, "a/chat/prefill=2", w.next())
		require.Equal(t, "b/other/server=1", w.next())
		require.Equal(t, "complete by decider-0", w.next())

		v.Publish(pass("b", "other", 5, "server"))
		require.Equal(t, "b/other/server=5", w.next())
		v.Publish(pass("a", "chat", 3, "decode"))
		require.Equal(t, "a/chat/prefill is gone", w.next())
		require.Equal(t, "a/chat/decode=3", w.next())
		v.Forget("a", "chat")
		require.Equal(t, "a/chat/decode is gone", w.next())
		v.Forget("a", "chat")
		v.Publish(pass("a", "chat", 7, "decode"))
		require.Equal(t, "a/chat/decode=7", w.next())
		require.Equal(t, 1, count(s.metrics.watches))
	})
}

func TestASelectorSelects(t *testing.T) {
	for name, row := range map[string]struct {
		selector *observationv1.ObservationSelector
		want     []string
	}{
		"everything":            {nil, []string{"a/chat/decode=1", "a/chat/prefill=1", "a/rank/decode=1", "b/chat/decode=1"}},
		"a namespace":           {&observationv1.ObservationSelector{Namespace: "a"}, []string{"a/chat/decode=1", "a/chat/prefill=1", "a/rank/decode=1"}},
		"a scaler":              {&observationv1.ObservationSelector{Namespace: "a", Scaler: "chat"}, []string{"a/chat/decode=1", "a/chat/prefill=1"}},
		"a role":                {&observationv1.ObservationSelector{Namespace: "a", Scaler: "chat", Role: "decode"}, []string{"a/chat/decode=1"}},
		"a role of all scalers": {&observationv1.ObservationSelector{Role: "decode"}, []string{"a/chat/decode=1", "a/rank/decode=1", "b/chat/decode=1"}},
		"namesakes everywhere":  {&observationv1.ObservationSelector{Scaler: "chat"}, []string{"a/chat/decode=1", "a/chat/prefill=1", "b/chat/decode=1"}},
		"nothing":               {&observationv1.ObservationSelector{Namespace: "a", Scaler: "none"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *served) {
				v := s.Lead()
				publish := func() {
					v.Publish(pass("a", "chat", 1, "prefill", "decode"))
					v.Publish(pass("a", "rank", 1, "decode"))
					v.Publish(pass("b", "chat", 1, "decode"))
				}
				publish()
				w := s.watch("root", row.selector)
				for _, line := range row.want {
					require.Equal(t, line, w.next())
				}
				require.Equal(t, "complete by decider-0", w.next())
				publish()
				var changes []string
				for range row.want {
					changes = append(changes, w.next())
				}
				require.ElementsMatch(t, row.want, changes)
			})
		})
	}
}

func TestAnUpdateTellsWhatWasObservedAndPlanned(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		p := pass("a", "chat", 4, "server")
		p.DecisionID, p.Hold = "abc.7.up", "the scaler is suspended"
		s.Lead().Publish(p)
		time.Sleep(3 * time.Second) // the bubble's time
		m, err := s.watch("ann", &observationv1.ObservationSelector{Namespace: "a"}).stream.Recv()
		require.NoError(t, err)
		o := m.GetObservation()
		require.Equal(t, "sampler-0", o.GetShard())
		require.Equal(t, p.Hold, o.GetHold())
		require.Equal(t, p.Time.UTC(), o.GetPlanTime().AsTime())
		require.InDelta(t, 4, o.GetObservation().GetAge().AsDuration().Seconds(), 0.001, "a second when it was planned with, three since")
		require.InDelta(t, 4, o.GetObservation().GetRunningRequests(), 0)
		require.Equal(t, "abc.7.up", o.GetPlan().GetDecisionId())
		require.Equal(t, "Fresh", o.GetPlan().GetSignalState())
		require.EqualValues(t, 1, o.GetPlan().GetCurrentReplicas())
		require.EqualValues(t, 4, o.GetPlan().GetRawRecommendedReplicas())
		require.Len(t, o.GetPlan().GetTrace(), 1)
		require.Equal(t, "recommend", o.GetPlan().GetTrace()[0].GetStage())
		require.Equal(t, time.Second, p.Roles[0].Observation.Age, "what was published is not touched")
	})
}

func TestASlowReaderGetsTheLatestAndHoldsUpNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		v := s.Lead()
		w := s.watch("ann", &observationv1.ObservationSelector{Namespace: "a"})
		require.Equal(t, "complete by decider-0", w.next())
		const passes = 5000
		for i := range passes {
			v.Publish(pass("a", "chat", int32(i+1), "server"))
		}
		synctest.Wait()
		received := 1
		for ; w.next() != fmt.Sprintf("a/chat/server=%d", passes); received++ {
		}
		require.Less(t, received, passes)
		require.Equal(t, passes-received, count(s.metrics.dropped), "each was sent or counted as lost")
	})
}

func TestAReaderThatDoesNotReadIsEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		v := s.Lead()
		stuck, fine := s.watch("ann", &observationv1.ObservationSelector{Namespace: "a"}), s.watch("root", nil)
		require.Equal(t, "complete by decider-0", stuck.next())
		require.Equal(t, "complete by decider-0", fine.next())
		for i := range 1000 { // more than the window takes
			v.Publish(pass("a", fmt.Sprint("chat-", i), 1, "server"))
		}
		for range 1000 {
			fine.next()
		}
		require.Equal(t, 2, count(s.metrics.watches))
		time.Sleep(stallTimeout + time.Second) // the bubble's time
		synctest.Wait()
		require.Equal(t, 1, count(s.metrics.watches))
		require.Equal(t, 1, s.refused(refusedSlow))
		stuck.fails(codes.ResourceExhausted, "too slow")
		v.Publish(pass("a", "chat", 9, "server"))
		require.Equal(t, "a/chat/server=9", fine.next())
	})
}

func TestRolesThatComeAndGoDoNotFillMemory(t *testing.T) {
	q := newQueue(selector{})
	for i := range maxQueued + 1 {
		q.offer(&entry{key: key{role: fmt.Sprint(i)}, gone: true})
	}
	require.Len(t, q.waiting, maxQueued)
	e, over := q.take()
	require.Nil(t, e)
	require.True(t, over, "a removal that was lost cannot be made up: the reader must begin anew")
}

func TestAWatchEndsWithTheLeadership(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		v := s.Lead()
		w := s.watch("root", nil)
		require.Equal(t, "complete by decider-0", w.next())
		v.End()
		w.fails(codes.Unavailable, "leads no more")
		s.watch("root", nil).fails(codes.Unavailable, "no copy of the decider leads")
	})
}

func TestAWatchEndsWhenTheServerStops(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		s.Lead()
		w := s.watch("root", nil)
		require.Equal(t, "complete by decider-0", w.next())
		began := time.Now()
		s.stop()
		w.fails(codes.Unavailable, "stops")
		synctest.Wait()
		require.Zero(t, time.Since(began), "nothing waits for a timeout")
	})
}
