package stream

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// told is o as a replay tells it at a time: without details, at the end of its age.
func told(o observe.RoleObservation, at time.Time) observe.RoleObservation {
	o.Replayed, o.Coverage.Uncovered = true, nil
	o.End = at.Add(-o.Age)
	o.Start = o.End
	if o.State == "" {
		o.State = observe.Missing
	}
	for _, l := range []*observe.Latency{&o.TTFT, &o.ITL} {
		*l = observe.Latency{Milliseconds: l.Milliseconds, Source: l.Source}
	}
	return o
}

func TestAReplayArrivesAsItWasButForTheDetails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, at := drawKey(t), time.Now()
		var list []observe.RoleObservation
		for range rapid.IntRange(1, 20).Draw(t, "passes") {
			o := drawObservation(t)
			if n := len(list); n > 0 && rapid.Bool().Draw(t, "alike") {
				o = list[n-1]
				o.Sequence, o.Age = o.Sequence+1, drawDuration(t, "later age")
			}
			o.Key = key
			list = append(list, o)
		}
		r, err := DecodeReplay(overTheWire(t, EncodeReplay(list)))
		require.NoError(t, err)
		require.Equal(t, len(list), r.Len())
		var want []observe.RoleObservation
		for _, o := range list {
			want = append(want, told(o, at))
		}
		require.Equal(t, want, r.Observations(at))
	})
}

func TestPassesThatDifferInNumbersAloneShareARun(t *testing.T) {
	list := []observe.RoleObservation{observation("server", 1), observation("server", 2), observation("server", 3)}
	list[1].Running = observe.Known(8)
	require.Len(t, EncodeReplay(list).GetRuns(), 1)
	list[2].Running = observe.Value{}
	require.Len(t, EncodeReplay(list).GetRuns(), 2)
}

func TestWhatIsNoNumberIsReplayedAsMissing(t *testing.T) {
	o := observation("server", 1)
	o.Running, o.TTFT.Milliseconds = observe.Known(math.NaN()), math.Inf(1)
	r, err := DecodeReplay(EncodeReplay([]observe.RoleObservation{o}))
	require.NoError(t, err)
	require.Equal(t, observe.Value{}, r.Observations(time.Now())[0].Running)
	require.Equal(t, observe.Latency{}, r.Observations(time.Now())[0].TTFT)
}

func TestAReplayThatNoSamplerCanMeanIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observationv1.RoleReplay)
		field  string
	}{
		"no role":                    {func(p *observationv1.RoleReplay) { p.Key = nil }, "key.namespace"},
		"a pass without a sequence":  {func(p *observationv1.RoleReplay) { p.Runs[0].Sequence = nil }, "runs"},
		"a pass without a span":      {func(p *observationv1.RoleReplay) { p.Runs[0].SpanNanoseconds = p.Runs[0].SpanNanoseconds[:1] }, "runs"},
		"an age before its time":     {func(p *observationv1.RoleReplay) { p.Runs[0].AgeNanoseconds[1] = -1 }, "runs"},
		"a run of nothing":           {func(p *observationv1.RoleReplay) { p.Runs = append(p.Runs, &observationv1.ReplayRun{}) }, "runs"},
		"fewer values than passes":   {func(p *observationv1.RoleReplay) { p.Runs[0].RunningRequests = p.Runs[0].RunningRequests[:1] }, "runs.running_requests"},
		"more latencies than passes": {func(p *observationv1.RoleReplay) { p.Runs[0].TtftMilliseconds = make([]float64, 3) }, "runs.ttft_milliseconds"},
		"a value that is no number":  {func(p *observationv1.RoleReplay) { p.Runs[0].RunningRequests[0] = math.NaN() }, "runs.running_requests"},
		"counts that contradict":     {func(p *observationv1.RoleReplay) { p.Runs[0].Coverage.Rated = 99 }, "runs.coverage"},
		"more passes than a role can have": {func(p *observationv1.RoleReplay) {
			p.Runs[0] = &observationv1.ReplayRun{AgeNanoseconds: make([]int64, maxReplay+1)}
		}, "runs"},
	} {
		t.Run(name, func(t *testing.T) {
			p := EncodeReplay([]observe.RoleObservation{observation("server", 1), observation("server", 2)})
			c.change(p)
			_, err := DecodeReplay(p)
			require.ErrorContains(t, err, "field "+c.field+":")
		})
	}
}

func TestHistoryIsToldRoleByRoleInMessagesOfBoundedLength(t *testing.T) {
	var all []observe.RoleObservation
	for sequence := range uint64(maxReplay + 1) {
		all = append(all, observation("a", sequence))
	}
	all = append(all, observation("b", 1), observation("b", 2))
	var lengths []int
	for list := range byRole(slices.Values(all)) {
		lengths = append(lengths, len(list))
	}
	require.Equal(t, []int{maxReplay, 1, 2}, lengths)
	for range byRole(slices.Values(all)) {
		break
	}
	require.Less(t, proto.Size(EncodeReplay(all[:maxReplay])), MaxMessage/4)
}

func FuzzReplay(f *testing.F) {
	wire, err := proto.Marshal(EncodeReplay([]observe.RoleObservation{observation("server", 1), observation("server", 2)}))
	require.NoError(f, err)
	f.Add(wire)
	f.Fuzz(func(t *testing.T, wire []byte) {
		p := &observationv1.RoleReplay{}
		if proto.Unmarshal(wire, p) != nil {
			return
		}
		if r, err := DecodeReplay(p); err == nil {
			for _, o := range r.Observations(time.Now()) {
				require.True(t, o.Replayed)
				require.GreaterOrEqual(t, o.Age, time.Duration(0))
			}
		}
	})
}

func TestAReplaySpansWhatItReachesBackOverWithoutAGap(t *testing.T) {
	twice := func(interval time.Duration) time.Duration { return 2 * interval }
	for name, row := range map[string]struct {
		ages  []int // seconds, at an interval of 10
		spans bool
	}{
		"from the beginning to now":             {[]int{60, 50, 40, 30, 20, 10}, true},
		"some passes are missing":               {[]int{60, 40, 20}, true},
		"it begins a little later":              {[]int{40, 30, 20, 10}, true},
		"it begins too late":                    {[]int{30, 20, 10}, false},
		"it begins before":                      {[]int{90, 70, 50, 30, 10}, true},
		"it has a gap":                          {[]int{60, 50, 20, 10}, false},
		"it ends too early, or nothing is live": {[]int{60, 50, 40, 30}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var list []observe.RoleObservation
			for i, age := range row.ages {
				o := observation("server", uint64(i))
				o.Age, o.Interval = time.Duration(age)*time.Second, 10*time.Second
				if i%2 == 1 {
					o.Waiting = observe.Value{} // another run
				}
				list = append(list, o)
			}
			r, err := DecodeReplay(EncodeReplay(list))
			require.NoError(t, err)
			require.Equal(t, row.spans, r.Spans(time.Minute, twice))
		})
	}
	require.False(t, Replay{}.Spans(0, twice))
}
