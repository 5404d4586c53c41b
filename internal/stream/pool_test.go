package stream

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// after lets d pass and everything that it sets off come to rest.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// pair starts one sampler and a pool that is connected to it.
func pair(t *testing.T) (*network, *sampler, *decider) {
	t.Helper()
	n, s := newNetwork(), startSampler(t, "shard-0")
	n.plug("a", s)
	d := startDecider(t, n, nil)
	d.SetMembers([]Member{{"sampler-0", "a"}})
	after(time.Second)
	require.Equal(t, []Shard{{Name: "shard-0", Node: "node-1", Version: "v1", Capacity: 200, Replayed: true}}, d.Live())
	return n, s, d
}

func TestThePoolAssignsTheWholeFirstThenDifferences(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, s, d := pair(t)
		require.Equal(t, int32(1), d.changes.Load())
		require.Empty(t, s.backend.assigned(), "nothing before the first Assign: the sampler keeps what it has")

		prefill, decode, encode := assignment("prefill"), assignment("decode"), assignment("encode")
		prefill.LastScrapeAge = 3 * time.Second
		assign := func(roles ...observe.Assignment) []Assign {
			before := len(s.backend.assigned())
			d.Assign(map[string][]observe.Assignment{"shard-0": roles})
			synctest.Wait()
			return s.backend.assigned()[before:]
		}
		require.Equal(t, []Assign{{Revision: 1, Full: true, Upserts: []observe.Assignment{prefill, decode}}}, assign(prefill, decode))
		require.Empty(t, assign(prefill, decode), "nothing changed")
		older := prefill
		older.LastScrapeAge = time.Minute
		require.Empty(t, assign(older, decode), "an age alone is no change")
		decode.ReadyReplicas = 2
		require.Equal(t, []Assign{{Revision: 2, Upserts: []observe.Assignment{decode, encode}}}, assign(prefill, decode, encode))
		require.Equal(t, []Assign{{Revision: 3, Removals: []observe.RoleKey{encode.Key}}}, assign(prefill, decode))
		d.Assign(map[string][]observe.Assignment{"another": {encode}})
		synctest.Wait()
		require.Len(t, s.backend.assigned(), 3, "a shard that is not named is told nothing")
		require.Equal(t, []Assign{{Revision: 4, Removals: []observe.RoleKey{decode.Key}}}, assign(prefill))

		d.stop()
		s.halt(t)
	})
}

func TestAnEmptyFirstAssignmentEmptiesTheSampler(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, s, d := pair(t)
		d.Assign(map[string][]observe.Assignment{"shard-0": nil})
		synctest.Wait()
		require.Equal(t, []Assign{{Revision: 1, Full: true}}, s.backend.assigned())
		d.stop()
		s.halt(t)
	})
}

func TestObservationsArriveWithShardAndTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, s, d := pair(t)
		s.Publish(observation("server", 1))
		bad := observation("server", 2)
		bad.Key.UID = ""
		s.Publish(bad)
		bad.Sequence = 3
		s.Publish(bad)
		synctest.Wait()
		require.Equal(t, []arrival{{"shard-0", observation("server", 1), time.Now()}}, d.arrived())
		require.Positive(t, count(d.metrics.refused.WithLabelValues(refusedObservation)))
		require.Equal(t, 1, d.logs.FilterMessageSnippet("refused an observation").Len(), "said once a session")
		d.stop()
		s.halt(t)
	})
}

func TestARestartedSamplerIsToldEverything(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s, d := pair(t)
		decode := assignment("decode")
		decode.LastScrapeAge = 2 * time.Second
		d.Assign(map[string][]observe.Assignment{"shard-0": {assignment("prefill"), decode}})
		synctest.Wait()

		n.plug("a", nil)
		n.cut("a")
		synctest.Wait()
		require.Empty(t, d.Live())
		require.Equal(t, int32(2), d.changes.Load())
		require.Equal(t, []string{"started decider-a", "ended"}, s.backend.told())
		require.Equal(t, map[string]Departure{"shard-0": {At: time.Now()}}, d.Departed(), "it may come back")
		s.halt(t)
		after(7 * time.Second)

		again := startSampler(t, "shard-0")
		n.plug("a", again)
		after(backoffMax)
		require.Equal(t, []string{"shard-0"}, d.names())
		require.Empty(t, d.Departed())
		got := again.backend.assigned()
		require.Len(t, got, 1)
		require.True(t, got[0].Full)
		require.Equal(t, []observe.RoleKey{key("prefill"), key("decode")}, []observe.RoleKey{got[0].Upserts[0].Key, got[0].Upserts[1].Key})
		require.Greater(t, got[0].Upserts[1].LastScrapeAge, 9*time.Second, "the age of the last scrape has grown meanwhile (D4)")
		require.Equal(t, 1, d.logs.FilterMessageSnippet("has no session").Len(), "said once, however often it is tried")
		d.stop()
		again.halt(t)
	})
}

func TestADrainingSamplerIsNotLiveAndIsLeftWhenItsRolesHaveMoved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s, d := pair(t)
		d.Assign(map[string][]observe.Assignment{"shard-0": {assignment("server")}})
		synctest.Wait()
		start := time.Now()
		n.plug("a", nil)
		s.stop()
		synctest.Wait()
		require.Empty(t, d.Live(), "at once")
		require.Equal(t, map[string]Departure{"shard-0": {Final: true, At: start}}, d.Departed())
		require.Equal(t, int32(2), d.changes.Load())

		s.Publish(observation("server", 1))
		synctest.Wait()
		require.Len(t, d.arrived(), 1, "observed until its roles have moved")
		require.Empty(t, s.stopped)

		d.Assign(map[string][]observe.Assignment{})
		require.NoError(t, <-s.stopped)
		require.Zero(t, time.Since(start), "no deadline was waited for")
		require.Equal(t, int32(2), d.changes.Load())
		d.stop()
	})
}

func TestAHalfOpenConnectionIsFoundWithin15Seconds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s, d := pair(t)
		after(time.Minute)
		require.Equal(t, []string{"shard-0"}, d.names(), "pings keep a silent session, and are never too many")
		start := time.Now()
		n.swallow("a")
		n.plug("a", nil)
		for len(d.Live()) > 0 {
			after(100 * time.Millisecond)
		}
		require.LessOrEqual(t, time.Since(start), 15*time.Second)
		left := d.Departed()["shard-0"]
		require.False(t, left.Final)
		require.GreaterOrEqual(t, time.Since(left.At), 15*time.Second, "lost since it was last heard of")
		after(15*time.Second - time.Since(start))
		require.Equal(t, []string{"started decider-a", "ended"}, s.backend.told(), "the sampler has found it too")
		d.stop()
		s.halt(t)
	})
}

func TestAMemberThatIsGoneIsLeft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s, d := pair(t)
		d.SetMembers(nil)
		synctest.Wait()
		require.Empty(t, d.Live())
		require.Equal(t, map[string]Departure{"shard-0": {Final: true, At: time.Now()}}, d.Departed(), "it is not waited for")
		require.Equal(t, []string{"started decider-a", "ended"}, s.backend.told())
		tries := len(n.attemptsOf("a"))
		after(time.Minute)
		require.Len(t, n.attemptsOf("a"), tries, "and not tried again")
		d.stop()
		s.halt(t)
	})
}

func TestAMemberThatMovedIsFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s, d := pair(t)
		moved := startSampler(t, "shard-0")
		n.plug("b", moved)
		d.SetMembers([]Member{{"sampler-0", "b"}})
		after(time.Second)
		require.Equal(t, []string{"shard-0"}, d.names())
		require.Equal(t, []string{"started decider-a"}, moved.backend.told())
		require.Equal(t, []string{"started decider-a", "ended"}, s.backend.told())
		d.stop()
		s.halt(t)
		moved.halt(t)
	})
}

func TestADeposedLeaderIsToldOnceAndAsksSlowly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s, d := pair(t)
		l := s.lead(t, "decider-b", Epoch{"lease", 4}, 0)
		after(time.Second)
		require.Empty(t, d.Live())
		require.Equal(t, 1, count(d.metrics.deposed))
		tries := len(n.attemptsOf("a"))
		after(5 * time.Minute)
		require.LessOrEqual(t, len(n.attemptsOf("a"))-tries, 20)
		require.Equal(t, 1, d.logs.FilterMessageSnippet("deposed").Len())
		require.Equal(t, []string{"started decider-a", "started decider-b"}, s.backend.told())

		l.close()
		n.plug("a", nil)
		after(deposedRetry)
		require.Equal(t, 0, count(d.metrics.deposed), "a sampler that is away deposes nobody")
		d.stop()
		s.halt(t)
	})
}

func TestASecondSamplerOfTheSameShardIsRefusedWhileTheFirstIsThere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, first, d := pair(t)
		second := startSampler(t, "shard-0")
		n.plug("b", second)
		d.SetMembers([]Member{{"sampler-0", "a"}, {"sampler-1", "b"}})
		after(time.Minute)
		require.Equal(t, []string{"shard-0"}, d.names())
		require.Equal(t, int32(1), d.changes.Load())
		require.Positive(t, count(d.metrics.refused.WithLabelValues(refusedShard)))
		require.Equal(t, 1, d.logs.FilterField(zap.String("member", "sampler-1")).Len())
		second.Publish(observation("server", 1))
		synctest.Wait()
		require.Empty(t, d.arrived(), "nothing is taken from it")

		d.SetMembers([]Member{{"sampler-1", "b"}})
		after(backoffMax)
		require.Equal(t, []string{"shard-0"}, d.names())
		d.stop()
		first.halt(t)
		second.halt(t)
	})
}

func TestTheEndOfAReplayShowsInTheShard(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s := newNetwork(), startSampler(t, "shard-0")
		s.backend.history = []observe.RoleObservation{observation("server", 1), observation("server", 2)}
		s.backend.latest = s.backend.history[1:]
		n.plug("a", s)
		var d *decider
		var replayed []uint64
		seen := []bool{}
		d = startDecider(t, n, func(o *PoolOptions) {
			o.ReplaySpan = 10 * time.Minute
			take := o.OnObservation
			o.OnReplay = func(shard string, r Replay, at time.Time) {
				require.Equal(t, "shard-0", shard)
				for _, o := range r.Observations(at) {
					replayed = append(replayed, o.Sequence)
				}
				seen = append(seen, d.Live()[0].Replayed)
			}
			o.OnObservation = func(shard string, o observe.RoleObservation, at time.Time) {
				seen = append(seen, d.Live()[0].Replayed)
				take(shard, o, at)
			}
		})
		d.SetMembers([]Member{{"sampler-0", "a"}})
		after(time.Second)
		require.Equal(t, 10*time.Minute, s.backend.replayed)
		require.Equal(t, int32(2), d.changes.Load(), "live, then replayed")
		require.Equal(t, []uint64{1}, replayed)
		require.Equal(t, uint64(2), d.arrived()[0].observation.Sequence)
		require.Equal(t, []bool{false, false}, seen)
		require.True(t, d.Live()[0].Replayed, "complete after the last")
		require.Equal(t, 2, count(d.metrics.received))
		d.stop()
		s.halt(t)
	})
}

func TestAnAssignmentOverTheSizeOfAMessageArrivesWhole(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, s, d := pair(t)
		var roles []observe.Assignment
		for i := range 6000 {
			roles = append(roles, assignment(fmt.Sprintf("role-%d", i)))
		}
		messages, _ := parts(Assign{Upserts: roles})
		require.Greater(t, len(messages), 1)
		d.Assign(map[string][]observe.Assignment{"shard-0": roles})
		synctest.Wait()
		require.Equal(t, []Assign{{Revision: 1, Full: true, Upserts: roles}}, s.backend.assigned())
		d.stop()
		s.halt(t)
	})
}

func TestARoleThatFitsNoMessageIsLeftOutAndSaidSo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, s, d := pair(t)
		huge := assignment("huge")
		for len(huge.Pods) < maxPods {
			pod := huge.Pods[0]
			pod.Node = fmt.Sprintf("%0512d", 1)
			huge.Pods = append(huge.Pods, pod)
		}
		d.Assign(map[string][]observe.Assignment{"shard-0": {huge, assignment("server")}})
		synctest.Wait()
		require.Equal(t, []Assign{{Revision: 1, Full: true, Upserts: []observe.Assignment{assignment("server")}, Removals: []observe.RoleKey{key("huge")}}}, s.backend.assigned())
		require.Equal(t, 1, d.logs.FilterField(zap.Stringer("role", key("huge"))).Len())
		d.stop()
		s.halt(t)
	})
}

func TestMorePodsThanAnyCapAreCutSafely(t *testing.T) {
	a := assignment("server")
	for len(a.Pods) < 3000 {
		a.Pods = append(a.Pods, a.Pods[0])
	}
	p := encodeAssignment(a)
	require.Len(t, p.GetPods(), maxPods)
	require.Greater(t, maxPods, 1024, "over the largest cap of D2, so that coverage is incomplete at the sampler")
}

func TestASessionThatLastedIsResumedAtOnceAndOneThatFlapsIsNotHammered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s, d := pair(t)
		tries, start := len(n.attemptsOf("a")), time.Now()
		for time.Since(start) < time.Minute {
			n.cut("a")
			after(100 * time.Millisecond)
		}
		require.Less(t, len(n.attemptsOf("a"))-tries, 30)

		after(time.Minute)
		n.cut("a")
		after(backoffFirst)
		require.Equal(t, []string{"shard-0"}, d.names())
		d.stop()
		s.halt(t)
	})
}

// impostor is a sampler that answers Hello with anything, or nothing (nil).
type impostor struct {
	observationv1.UnimplementedSamplerServiceServer
	answer *observationv1.SessionResponse
}

func (i impostor) Session(stream sessionStream) error {
	if i.answer != nil {
		if err := stream.Send(i.answer); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

func TestSamplersThatAnswerBadlyOrNeverAreNotLive(t *testing.T) {
	ready := func(r *observationv1.Ready) *observationv1.SessionResponse {
		return &observationv1.SessionResponse{Message: &observationv1.SessionResponse_Ready{Ready: r}}
	}
	for name, row := range map[string]struct {
		answer *observationv1.SessionResponse
		want   string
	}{
		"no answer":                  {nil, "no ready within 10s"},
		"an answer without message":  {&observationv1.SessionResponse{}, "first message must be ready"},
		"an observation for answer":  {&observationv1.SessionResponse{Message: &observationv1.SessionResponse_Observation{}}, "first message must be ready"},
		"a shard without name":       {ready(&observationv1.Ready{}), "ready.shard"},
		"a capacity below zero":      {ready(&observationv1.Ready{Shard: "s", CapacityScrapesPerSecond: -1}), "ready.capacity_scrapes_per_second"},
		"a capacity without measure": {ready(&observationv1.Ready{Shard: "s", CapacityScrapesPerSecond: math.Inf(1)}), "ready.capacity_scrapes_per_second"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				listener, server := bufconn.Listen(1<<16), grpc.NewServer()
				observationv1.RegisterSamplerServiceServer(server, impostor{answer: row.answer})
				go func() { _ = server.Serve(listener) }()
				n := newNetwork()
				n.plug("a", listener)
				d := startDecider(t, n, nil)
				d.SetMembers([]Member{{"sampler-0", "a"}})
				after(readyTimeout + time.Second)
				require.Empty(t, d.Live())
				require.Zero(t, d.changes.Load())
				lines := d.logs.FilterMessageSnippet("has no session with a sampler").All()
				require.Len(t, lines, 1)
				require.Contains(t, lines[0].ContextMap()["error"], row.want)
				d.stop()
				server.Stop()
			})
		})
	}
}

// mute accepts connections and never says a word, as a stopped process does.
type mute struct{}

func (mute) DialContext(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	return near, nil
}

func TestASamplerThatIsStoppedIsGivenUpAndTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := newNetwork()
		n.plug("a", mute{})
		d := startDecider(t, n, nil)
		d.SetMembers([]Member{{"sampler-0", "a"}})
		after(time.Minute)
		require.Greater(t, len(n.attemptsOf("a")), 5)
		s := startSampler(t, "shard-0")
		n.plug("a", s)
		after(2 * backoffMax)
		require.Equal(t, []string{"shard-0"}, d.names())
		d.stop()
		s.halt(t)
	})
}

func TestTwoHundredSamplersAreMetWithoutAStorm(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const size = 200
		n, d := newNetwork(), startDecider(t, nil, nil)
		d.dial = n.dial
		var members []Member
		var samplers []*sampler
		for i := range size {
			s := startSampler(t, fmt.Sprintf("shard-%03d", i))
			samplers = append(samplers, s)
			members = append(members, Member{s.options.Shard, s.options.Shard})
			n.plug(s.options.Shard, s)
		}
		d.SetMembers(members)
		after(spreadMax)
		require.Len(t, d.Live(), size, "all within the spread of first attempts")
		require.Less(t, busiest(n, members, 100*time.Millisecond), size/4, "in no tenth of a second more than a quarter")

		for _, m := range members {
			n.plug(m.Address, nil)
			n.cut(m.Address)
		}
		lost := time.Now()
		after(time.Minute)
		require.Empty(t, d.Live())
		late := 0
		for _, m := range members {
			tries := n.attemptsOf(m.Address)
			for i := 1; i < len(tries); i++ {
				if tries[i-1].After(lost) {
					require.LessOrEqual(t, tries[i].Sub(tries[i-1]), backoffMax)
				}
			}
			require.LessOrEqual(t, time.Since(tries[len(tries)-1]), backoffMax, "never given up")
			late += len(tries)
		}
		require.Less(t, late, size*30, "at most one attempt in 2.5 s once the backoff is full")
		require.Less(t, busiestSince(n, members, lost.Add(20*time.Second), 100*time.Millisecond), size/8, "spread out by jitter")
		d.stop()
		for _, s := range samplers {
			s.halt(t)
		}
	})
}

func busiest(n *network, members []Member, slot time.Duration) int {
	return busiestSince(n, members, time.Time{}, slot)
}

// busiestSince counts the attempts in the busiest slot of time after since.
func busiestSince(n *network, members []Member, since time.Time, slot time.Duration) int {
	slots := map[time.Time]int{}
	for _, m := range members {
		for _, at := range n.attemptsOf(m.Address) {
			if at.After(since) {
				slots[at.Truncate(slot)]++
			}
		}
	}
	most := 0
	for _, attempts := range slots {
		most = max(most, attempts)
	}
	return most
}

func TestBackoffGrowsToItsBoundAndNeverPast(t *testing.T) {
	for attempt := range 50 {
		base := min(backoffFirst<<min(attempt, 10), backoffMax)
		waits := map[time.Duration]bool{}
		for range 100 {
			wait := backoff(attempt)
			require.GreaterOrEqual(t, wait, base/2)
			require.Less(t, wait, base)
			waits[wait] = true
		}
		require.Greater(t, len(waits), 50, "by chance")
	}
	require.Equal(t, spreadMax, firstSpread(5000))
	require.Equal(t, 15*time.Millisecond, firstSpread(3))
}

func TestASecondPoolOfAProcessSharesTheMetrics(t *testing.T) {
	options := PoolOptions{Registerer: prometheus.NewRegistry()}
	NewPool(options).metrics.received.Inc()
	require.Equal(t, 1, count(NewPool(options).metrics.received))
}

func TestADifferenceMakesOneOfTheOther(t *testing.T) {
	sent := []observe.Assignment{assignment("kept"), assignment("gone"), assignment("changed")}
	changed := assignment("changed")
	changed.Pods = append(slices.Clone(changed.Pods), changed.Pods[0])
	upserts, removals := difference(sent, []observe.Assignment{assignment("kept"), changed, assignment("new")})
	require.Equal(t, []observe.Assignment{changed, assignment("new")}, upserts)
	require.Equal(t, []observe.RoleKey{key("gone")}, removals)
}
