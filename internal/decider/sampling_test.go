package decider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

func TestASamplerThatRestartsKeepsItsRolesAndOneThatGoesGivesThemUp(t *testing.T) {
	w := newWorld(t)
	first, second := w.sampler, startSampler(t, "sampler-1")
	proxies := map[*sampler]*proxy{first: startProxy(t, first.address), second: startProxy(t, second.address)}
	d := w.decide("decider", func(o *Options) {
		o.SamplerAddresses = []string{proxies[first].listener.Addr().String(), proxies[second].listener.Addr().String()}
	})
	connected := func(n int) func() bool {
		return func() bool {
			families, err := d.registry.Gather()
			require.NoError(t, err)
			for _, f := range families {
				if f.GetName() == "mds_decider_samplers_connected" {
					return int(f.GetMetric()[0].GetGauge().GetValue()) == n
				}
			}
			return false // it has hardly begun
		}
	}
	w.eventually("both samplers are there", connected(2))
	w.scale("s", workerv1.ModeShadow)
	w.eventually("one has the role", func() bool { return len(first.assigned())+len(second.assigned()) == 1 })
	owner, other := first, second
	if len(second.assigned()) == 1 {
		owner, other = second, first
	}

	proxies[owner].cutOff(true)
	w.eventually("the session is lost", connected(1))
	proxies[owner].cutOff(false)
	w.eventually("and back", connected(2))
	require.Len(t, owner.assigned(), 1)
	require.Empty(t, other.assigned(), "a restart moves nothing")

	lost := time.Now()
	proxies[owner].cutOff(true)
	w.eventually("the other has the role", func() bool { return len(other.assigned()) == 1 })
	require.GreaterOrEqual(t, time.Since(lost), grace)
	require.Less(t, time.Since(lost), 15*time.Second)

	proxies[owner].cutOff(false)
	w.eventually("the first is back, with nothing to do", func() bool { return len(owner.assigned()) == 0 && connected(2)() })
	require.Len(t, other.assigned(), 1)
	drained := time.Now()
	other.stop()
	w.eventually("the first has the role", func() bool { return len(owner.assigned()) == 1 })
	require.Less(t, time.Since(drained), grace, "a goodbye is not waited after")
	require.NoError(t, d.end(t))
}

func TestANewLeaderHearsTheSamplersBeforeItChangesWhatTheyDo(t *testing.T) {
	replayed, silent := stream.Shard{Replayed: true}, stream.Shard{}
	for name, test := range map[string]struct {
		live    []stream.Shard
		members int
		passed  time.Duration
		waits   time.Duration
	}{
		"there is no sampler":                     {nil, 0, 0, 0},
		"all have replayed":                       {[]stream.Shard{replayed, replayed}, 2, 0, 0},
		"one is not connected":                    {[]stream.Shard{replayed}, 2, time.Second, gatherTimeout - time.Second},
		"one has not replayed all it has":         {[]stream.Shard{replayed, silent}, 2, 3 * time.Second, replayTimeout - 3*time.Second},
		"one replays without an end":              {[]stream.Shard{replayed, silent}, 2, replayTimeout, 0},
		"one has not come, and time is over":      {[]stream.Shard{replayed}, 2, gatherTimeout, 0},
		"none of them has come, and time is over": {nil, 2, gatherTimeout, 0},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			l := &leader{started: now.Add(-test.passed), gathered: make(chan struct{}), log: zap.NewNop()}
			require.Equal(t, test.waits, l.gathering(test.live, test.members, now))
			if test.waits == 0 {
				<-l.gathered
				require.Zero(t, l.gathering(nil, 7, now), "it is over for good")
			}
		})
	}
}

func TestOnlyWhatIsObservedInAnotherWayIsAssignedAnew(t *testing.T) {
	w := newWorld(t)
	w.scale("s", workerv1.ModeShadow)
	l := w.handLeader("s")
	l.observed, l.touched = make(map[types.NamespacedName][]observe.Assignment), make(map[types.NamespacedName]bool)
	l.moved = make(chan struct{}, 1)
	on := types.NamespacedName{Namespace: w.namespace, Name: "md"}
	again := func() bool { l.touch(on); return l.lookAgain() }
	require.True(t, again(), "it is new")
	require.False(t, again(), "it is as it was")
	require.False(t, l.lookAgain(), "nobody touched it")

	w.patchScaler("s", `{"spec":{"sampling":{"intervalSeconds":30}}}`)
	w.eventually("the interval is in view", func() bool { return l.cache.Scaler(l.name).Spec.Sampling.IntervalSeconds == 30 })
	require.True(t, again(), "it is observed less often")
	w.patchScaler("s", `{"spec":{"suspend":true}}`)
	w.eventually("the suspension is in view", func() bool { return l.cache.Scaler(l.name).Spec.Suspend })
	require.True(t, again(), "nobody plans it any more")
	require.False(t, again())
}
