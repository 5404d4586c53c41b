package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/sim"
)

// A trio is a deployment of three roles: prefill follows prompts, decode follows answers, and encode follows prefill.
const trio = `
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata: {name: trio}
spec:
  model: {name: Qwen/Qwen3-VL-32B}
  engine: {name: SGLang}
  roles:
    - {name: prefill, kind: Prefill, replicas: %d, instanceType: %s}
    - {name: decode, kind: Decode, replicas: %d, instanceType: %s}
    - {name: encode, kind: Encode, replicas: %d, instanceType: %s}
`

const trioScaler = `
apiVersion: worker.gpustack.ai/v1
kind: ModelDeploymentScaler
metadata: {name: trio}
spec:
  targetRef: {name: trio}
  mode: Shadow
  sampling: {intervalSeconds: 5, pendingTimeoutSeconds: %d}
  roles:
    - {name: prefill, minReplicas: 1, maxReplicas: 4}
    - {name: decode, minReplicas: 1, maxReplicas: 4}
    - {name: encode, minReplicas: 1, maxReplicas: 2}
  ratios:
    - {numeratorRole: prefill, denominatorRole: decode, min: "0.5", target: "1", max: "2"}
    - {numeratorRole: encode, denominatorRole: prefill, min: "0.25", target: "0.5", max: "1"}
  algorithm:
    tokenThroughput:
      prefillTargetTokensPerSecond: "2000"
      decodeTargetTokensPerSecond: "800"
      stableWindowSeconds: 30
      panicWindowSeconds: 10
      ttftTargetMilliseconds: "5000"
  behavior:
    scaleDown: {stabilizationWindowSeconds: %d, cooldownAfterAbortSeconds: 15, decodePostScaleUpGraceSeconds: 5}
`

// tokens is traffic of that many requests a second, with the prompt tokens a second that prefill computes (30 % of them are in
// the prefix cache) and the tokens a second that decode generates.
func tokens(requests, computed, generated float64) sim.Traffic {
	return sim.Constant(requests, int(computed/requests/0.7), int(generated/requests))
}

// Longer than any test takes, whatever happens meanwhile: the most that the API allows.
const (
	neverPending = 1200 // seconds
	neverShrinks = 1800
)

// trio deploys one replica count of prefill, decode and encode each, in a pool each, and lets the traffic settle.
func (s *stage) trio(replicas [3]int, pools [3]string, traffic sim.Traffic) {
	s.t.Helper()
	require.NoError(s.t, s.Apply(s.t.Context(), s.namespace, fmt.Sprintf(trio, replicas[0], pools[0], replicas[1], pools[1], replicas[2], pools[2])))
	s.eventually("all replicas serve", func() bool { return s.ready("trio") == replicas[0]+replicas[1]+replicas[2] })
	s.Fleet.SetTraffic(s.namespace, "trio", traffic)
	s.eventually("requests are answered", func() bool { return s.Fleet.Totals(s.namespace, "trio").Finished >= 10 })
}

// plan applies the scaler of a trio, and records the target from before its first write. It begins to write when its readings
// ask for what the traffic needs: the very first one is off by as much as a busy machine was late with a scrape.
func (s *stage) plan(pendingTimeout, downWindow int, prefill, decode float64) *record {
	s.t.Helper()
	record := s.record("trio")
	require.NoError(s.t, s.Apply(s.t.Context(), s.namespace, fmt.Sprintf(trioScaler, pendingTimeout, downWindow)))
	s.eventually("it recommends what the traffic needs", func() bool {
		return s.recommended("prefill") == prefill && s.recommended("decode") == decode
	})
	s.edit("trio", `{"spec":{"mode":"Active"}}`)
	s.bound("trio", "trio")
	return record
}

// recommended replicas of a role, by the latest pass.
func (s *stage) recommended(role string) float64 {
	s.t.Helper()
	return s.all("decider", "mds_decider_recommended_replicas", map[string]string{"namespace": s.namespace, "role": role})
}

// prefill is the state of an instance of prefill.
func (s *stage) prefill(ordinal int) sim.State {
	for _, i := range s.Fleet.Instances(s.namespace, "trio") {
		if i.Role.Name == "prefill" && i.Ordinal == ordinal {
			return i.State
		}
	}
	return ""
}

// Prompts alone grow, and prefill pulls the others along. Two replicas of prefill are admitted, but never at once: the second
// gets the place that the first is evicted from. So nothing grows further until there is room for both.
func TestGrowthPullsPartnersAndWaitsForAdmission(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Fleet.SetQuota("narrow", 1)
	s.trio([3]int{1, 1, 1}, [3]string{"narrow", "wide", "wide"}, tokens(10, 5000, 400))
	record := s.plan(neverPending, neverShrinks, 3, 1)
	s.eventually("prefill grows by its demand, decode by its band, encode by its ratio", func() bool { return s.counts("trio", 3, 2, 2) })
	s.eventually("the growth is on record", func() bool { return s.scaler("trio").Status.PendingCohort != nil })

	s.Fleet.SetQuota("narrow", 2)
	s.eventually("one more is admitted", func() bool { return s.prefill(1) == sim.Ready })
	pod := s.pod("trio", "prefill", "1")
	s.eventually("and evicted, once it serves", func() bool { return s.Fleet.Evict(s.namespace, pod) == nil })
	s.eventually("the other takes its place", func() bool { return s.prefill(2) == sim.Ready })
	require.Equal(t, sim.Pending, s.prefill(1))
	s.Fleet.SetTraffic(s.namespace, "trio", tokens(10, 7000, 4000))
	s.eventually("more is wanted, of both all that comes", func() bool { return s.recommended("prefill") >= 4 && s.recommended("decode") >= 4 })
	require.True(t, s.counts("trio", 3, 2, 2), "and nothing grows")
	cohort := s.scaler("trio").Status.PendingCohort
	require.NotNil(t, cohort, "the growth is still pending")
	require.Equal(t, workerv1.Vector{"prefill": 3, "decode": 2, "encode": 2}, cohort.TargetVector)

	s.Fleet.SetQuota("narrow", -1)
	s.eventually("it grows to what is wanted", func() bool { return s.counts("trio", 4, 4, 2) && s.ready("trio") == 10 })
	s.eventually("all of it is admitted", func() bool { return s.scaler("trio").Status.PendingCohort == nil })
	require.Equal(t, []fence.CommitKind{fence.CommitUp, fence.CommitUp}, kinds(record.keeps(s.limits("trio", 4, 1))))
}

// One pool is full. Prefill and encode cannot grow, decode has one replica too many, but shrinks only after a long window. The
// refused growth makes it give that replica to prefill; encode waits for more quota.
func TestRefusedGrowthIsTakenBackAndCapacityMoves(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Fleet.SetQuota("full", 6)
	s.trio([3]int{2, 3, 1}, [3]string{"full", "full", "full"}, tokens(10, 5000, 1200))
	record := s.plan(60, neverShrinks, 3, 2)
	s.eventually("it grows without room", func() bool { return s.counts("trio", 3, 3, 2) })
	s.eventually("all of it is taken back", func() bool { // at once, as the record shows
		e := s.scaler("trio").Status.Exhaustion
		return e != nil && len(e.Roles) == 2
	})
	s.eventually("a replica of decode became one of prefill, and encode tries again", func() bool { return s.counts("trio", 3, 2, 2) })
	s.Fleet.SetQuota("full", 7) // before encode has waited for a minute
	for _, told := range []string{kube.EventRolledBack, kube.EventDonated, kube.EventAcquired} {
		s.event("trio", told)
	}
	s.eventually("all replicas serve", func() bool { return s.ready("trio") == 7 })
	s.eventually("and the refusal is history", func() bool {
		status := s.scaler("trio").Status
		return status.PendingCohort == nil && status.Exhaustion == nil && status.Rebalance == nil
	})
	s.reports("trio", workerv1.ConditionBlocked, metav1.ConditionFalse, workerv1.ReasonReady)
	require.Zero(t, s.Fleet.Totals(s.namespace, "trio").Lost, "no request was lost")
	require.Equal(t, []fence.CommitKind{fence.CommitUp, fence.CommitRollback, fence.CommitDonate, fence.CommitAcquire, fence.CommitUp},
		kinds(record.keeps(s.limits("trio", 4, 1))))
}

// Decode has one replica too many. Its removal is aborted once, and is tried again after the cooldown.
func TestAbortedRemovalIsRestored(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.trio([3]int{2, 4, 1}, [3]string{"calm", "calm", "calm"}, tokens(4, 3000, 2000))
	record := s.plan(60, 10, 2, 3)
	s.eventually("a replica of decode retires, which is aborted", func() bool {
		return s.Fleet.Abort(s.namespace, "trio", "the router does not let go of it")
	})
	s.eventually("it comes back", func() bool { return s.counts("trio", 2, 4, 1) })
	s.reports("trio", workerv1.ConditionBlocked, metav1.ConditionTrue, workerv1.ReasonScaleDownAborted)
	s.event("trio", kube.EventRestored)
	var removal *workerv1.ScaleDownStatus
	s.eventually("the abort is on record", func() bool {
		removal = s.scaler("trio").Status.LastScaleDown
		return removal.Outcome == workerv1.ScaleDownAborted
	})

	s.eventually("it goes after the cooldown", func() bool {
		return s.counts("trio", 2, 3, 1) && len(s.Fleet.Instances(s.namespace, "trio")) == 6
	})
	s.eventually("that is on record", func() bool { return s.scaler("trio").Status.LastCommit.Vector["decode"] == 3 })
	require.False(t, s.scaler("trio").Status.LastCommit.Timestamp.Before(removal.CooldownUntil), "nothing shrinks before")
	require.Zero(t, s.Fleet.Totals(s.namespace, "trio").Lost, "no request was lost")
	require.Equal(t, []fence.CommitKind{fence.CommitDown, fence.CommitRestore, fence.CommitDown}, kinds(record.keeps(s.limits("trio", 4, 1))))
}
