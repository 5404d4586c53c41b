package stream

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

func hello(identity string, epoch Epoch, replay time.Duration) *observationv1.Hello {
	return &observationv1.Hello{
		Leader: identity, Epoch: &observationv1.Epoch{LeaseUid: epoch.LeaseUID, Transitions: epoch.Transitions}, ReplaySpan: durationpb.New(replay),
	}
}

func TestASessionAnswersReadyThenAppliesAssignmentsAndStreamsObservations(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		l := s.lead(t, "decider-a", Epoch{"lease", 3}, 0)
		ready := l.next().GetReady()
		require.Equal(t, "shard-0", ready.GetShard())
		require.InDelta(t, 200, ready.GetCapacityScrapesPerSecond(), 0)

		messages, _ := parts(Assign{Revision: 1, Full: true, Upserts: []observe.Assignment{assignment("server")}})
		l.assign(messages[0])
		synctest.Wait()
		require.Equal(t, []Assign{{Revision: 1, Full: true, Upserts: []observe.Assignment{assignment("server")}}}, s.backend.assigned())

		s.Publish(observation("server", 7))
		o, err := DecodeObservation(l.next().GetObservation())
		require.NoError(t, err)
		require.Equal(t, observation("server", 7), o)
		require.Equal(t, []string{"started decider-a"}, s.backend.told())
		require.Equal(t, 1, count(s.metrics.sessions))

		l.close()
		synctest.Wait()
		require.Equal(t, []string{"started decider-a", "ended"}, s.backend.told())
		require.Equal(t, 0, count(s.metrics.sessions))
		s.halt(t)
	})
}

func TestSessionsAreRefusedThatDoNotBeginWithACompleteHello(t *testing.T) {
	for name, row := range map[string]struct {
		first *observationv1.SessionRequest
		code  codes.Code
		want  string
	}{
		"an assignment first":    {&observationv1.SessionRequest{Message: &observationv1.SessionRequest_Assign{}}, codes.InvalidArgument, "must be hello"},
		"a message without any":  {&observationv1.SessionRequest{}, codes.InvalidArgument, "must be hello"},
		"a hello without leader": {helloRequest(hello("", Epoch{"lease", 1}, 0)), codes.InvalidArgument, "hello.leader"},
		"a hello without lease":  {helloRequest(hello("a", Epoch{}, 0)), codes.InvalidArgument, "hello.epoch.lease_uid"},
		"negative transitions":   {helloRequest(hello("a", Epoch{"lease", -1}, 0)), codes.InvalidArgument, "hello.epoch.transitions"},
		"a negative replay":      {helloRequest(hello("a", Epoch{"lease", 1}, -1)), codes.InvalidArgument, "hello.replay_span"},
		"nothing for 10 seconds": {nil, codes.DeadlineExceeded, "no hello within 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := startSampler(t, "shard-0")
				conn := s.client(t)
				stream, err := observationv1.NewSamplerServiceClient(conn).Session(t.Context())
				require.NoError(t, err)
				if row.first != nil {
					require.NoError(t, stream.Send(row.first))
				}
				_, err = stream.Recv()
				require.Equal(t, row.code, status.Code(err))
				require.ErrorContains(t, err, row.want)
				require.Empty(t, s.backend.told())
				require.Equal(t, 1, count(s.metrics.refused.WithLabelValues(refusedProtocol)))
				require.NoError(t, conn.Close())
				s.halt(t)
			})
		})
	}
}

func helloRequest(h *observationv1.Hello) *observationv1.SessionRequest {
	return &observationv1.SessionRequest{Message: &observationv1.SessionRequest_Hello{Hello: h}}
}

func TestEpochsOrderLeaders(t *testing.T) {
	for name, row := range map[string]struct {
		before []Epoch
		epoch  Epoch
		code   codes.Code // of the new session; OK: it takes over
	}{
		"an older epoch of the same lease is refused":            {[]Epoch{{"lease", 4}}, Epoch{"lease", 3}, codes.FailedPrecondition},
		"a newer epoch takes over":                               {[]Epoch{{"lease", 4}}, Epoch{"lease", 5}, codes.OK},
		"an equal epoch is the same leader, reconnected":         {[]Epoch{{"lease", 4}}, Epoch{"lease", 4}, codes.OK},
		"another lease starts anew":                              {[]Epoch{{"lease", 4}}, Epoch{"other", 0}, codes.OK},
		"the leader of a lease that another followed is refused": {[]Epoch{{"lease", 4}, {"other", 0}}, Epoch{"lease", 9}, codes.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := startSampler(t, "shard-0")
				var older *leader
				for _, epoch := range row.before {
					older = s.lead(t, "old", epoch, 0)
					defer older.close()
					older.next()
				}
				newer := s.lead(t, "new", row.epoch, 0)
				defer newer.close()
				if row.code != codes.OK {
					err := newer.fails()
					require.Equal(t, row.code, status.Code(err))
					require.ErrorContains(t, err, "another leader followed")
					require.Equal(t, 1, count(s.metrics.refused.WithLabelValues(refusedEpoch)))
					s.Publish(observation("server", 1))
					require.NotNil(t, older.next().GetObservation(), "the leading session goes on")
				} else {
					require.NotNil(t, newer.next().GetReady())
					err := older.fails()
					require.Equal(t, codes.Aborted, status.Code(err))
					require.ErrorContains(t, err, "newer session")
					s.Publish(observation("server", 1))
					require.NotNil(t, newer.next().GetObservation())
					require.Equal(t, []string{"started old", "started new"}, s.backend.told(), "taken over: never leaderless")
				}
				s.stop()
			})
		})
	}
}

func TestAnEpochIsRememberedAfterItsSessionEnded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		l := s.lead(t, "new", Epoch{"lease", 5}, 0)
		l.next()
		l.close()
		synctest.Wait()
		old := s.lead(t, "old", Epoch{"lease", 4}, 0)
		require.Equal(t, codes.FailedPrecondition, status.Code(old.fails()))
		old.close()
		s.halt(t)
	})
}

func TestAReplacedSessionCannotAssign(t *testing.T) {
	backend := &recorder{}
	l := &leadership{backend: backend}
	old, err := l.begin("old", Epoch{"lease", 1})
	require.NoError(t, err)
	l.apply(old, Assign{Revision: 1})
	current, err := l.begin("new", Epoch{"lease", 2})
	require.NoError(t, err)
	l.apply(old, Assign{Revision: 2})
	l.end(old)
	l.apply(current, Assign{Revision: 3})
	require.Equal(t, []Assign{{Revision: 1}, {Revision: 3}}, backend.assigned())
	require.Equal(t, []string{"started old", "started new"}, backend.told())
}

func TestTheLatestIsLiveAndComesBeforeTheReplayRoleByRoleOldestFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		for _, role := range []string{"prefill", "decode"} {
			for sequence := range uint64(3) {
				o := observation(role, sequence)
				o.Age = time.Duration(3-sequence) * time.Minute
				s.backend.history = append(s.backend.history, o)
				if sequence == 2 {
					s.backend.latest = append(s.backend.latest, o)
				}
			}
		}
		s.backend.history = append(s.backend.history, observation("moved", 7))
		l := s.lead(t, "new", Epoch{"lease", 1}, time.Hour)
		defer l.close()
		require.NotNil(t, l.next().GetReady())
		var got []string
		for range 6 {
			m := l.next()
			switch {
			case m.GetReplayComplete() != nil:
				got = append(got, fmt.Sprintf("complete %d", m.GetReplayComplete().GetObservations()))
			case m.GetReplay() != nil:
				r, err := DecodeReplay(m.GetReplay())
				require.NoError(t, err)
				for _, o := range r.Observations(time.Now()) {
					got = append(got, fmt.Sprintf("%s %d replayed=%v age=%s", o.Key.Role, o.Sequence, o.Replayed, o.Age))
				}
			default:
				o := m.GetObservation()
				got = append(got, fmt.Sprintf("%s %d replayed=%v age=%s", o.GetKey().GetRole(), o.GetSequence(), o.GetReplayed(), o.GetAge().AsDuration()))
			}
		}
		require.Equal(t, []string{
			"prefill 2 replayed=false age=1m0s", "decode 2 replayed=false age=1m0s",
			"prefill 0 replayed=true age=3m0s", "prefill 1 replayed=true age=2m0s",
			"decode 0 replayed=true age=3m0s", "decode 1 replayed=true age=2m0s",
			"moved 7 replayed=true age=0s",
			"complete 5",
		}, got)
		require.Equal(t, 30*time.Minute, s.backend.replayed, "no more is asked for than is kept")
		s.stop()
	})
}

func TestAReplayNeverLosesNorRepeatsWhatIsPublishedMeanwhile(t *testing.T) {
	for name, row := range map[string]struct {
		waits        uint64 // sequence published before the history was read
		replay, live []uint64
	}{
		"the latest of the history was published too": {2, []uint64{1}, []uint64{2}},
		"a later one was published":                   {3, []uint64{1, 2}, []uint64{3}},
	} {
		t.Run(name, func(t *testing.T) {
			history := []observe.RoleObservation{observation("server", 1), observation("server", 2)}
			backend := &recorder{history: history, latest: history[1:]}
			s := &session{server: &Server{backend: backend}, queue: newQueue(everyRole)}
			s.queue.offer(stamped{observation: observation("server", row.waits)})
			s.prepareReplay(time.Minute)
			var replay, live []uint64
			for list, found := s.replay(); found; list, found = s.replay() {
				for _, o := range list {
					replay = append(replay, o.Sequence)
				}
			}
			for o, found := s.queue.take(); found; o, found = s.queue.take() {
				live = append(live, o.observation.Sequence)
			}
			require.Equal(t, row.replay, replay)
			require.Equal(t, row.live, live)
		})
	}
}

func TestAgeGrowsWhileAnObservationWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue(everyRole)
		o := observation("server", 1)
		o.Age = time.Second
		q.offer(stamped{o, time.Now()})
		<-time.After(4 * time.Second)
		waited, found := q.take()
		require.True(t, found)
		require.Equal(t, 5*time.Second, waited.current().Age)
	})
}

// heavy is an observation of some 17 KiB: few of them fill the windows of flow control.
func heavy(role string, sequence uint64) observe.RoleObservation {
	o := observation(role, sequence)
	for range maxUncovered {
		o.Coverage.Uncovered = append(o.Coverage.Uncovered, observe.UncoveredPod{Name: "pod", Message: strings.Repeat("m", maxText)})
	}
	return o
}

func TestASlowLeaderLosesOlderObservationsNeverMemoryNorTheLatest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		l := s.lead(t, "slow", Epoch{"lease", 1}, 0)
		defer l.close()
		l.next()
		const passes, roles = 100, 3
		for sequence := range uint64(passes) {
			for role := range roles {
				s.Publish(heavy(fmt.Sprintf("role-%d", role), sequence))
			}
			synctest.Wait() // the sender goes as far as flow control lets it
		}
		dropped := count(s.metrics.dropped)
		require.Greater(t, dropped, 200, "a reader that does not read stops the sender")

		latest, received := map[string]uint64{}, 0
		for len(latest) < roles || latest["role-0"] < passes-1 || latest["role-1"] < passes-1 || latest["role-2"] < passes-1 {
			o := l.next().GetObservation()
			role := o.GetKey().GetRole()
			if before, found := latest[role]; found {
				require.Greater(t, o.GetSequence(), before, "in order, none twice")
			}
			latest[role] = o.GetSequence()
			received++
		}
		require.Equal(t, passes*roles, received+dropped, "every observation was received or counted")
		s.stop()
	})
}

func TestALeaderThatIsFrozenDoesNotHoldUpTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		frozen := s.lead(t, "frozen", Epoch{"lease", 1}, 0)
		defer frozen.close()
		frozen.next()
		for sequence := range uint64(50) {
			s.Publish(heavy("server", sequence))
			synctest.Wait()
		}
		start := time.Now()
		l := s.lead(t, "new", Epoch{"lease", 2}, 0)
		defer l.close()
		l.next()
		l.assign(&observationv1.Assign{Revision: 1})
		synctest.Wait()
		require.Len(t, s.backend.assigned(), 1)
		s.Publish(observation("server", 51))
		require.Equal(t, uint64(51), l.next().GetObservation().GetSequence(), "nothing of the frozen leader's backlog")
		require.Zero(t, time.Since(start))
		s.stop()
	})
}

func TestAQueueDropsTheRoleThatWaitsLongestWhenItIsFull(t *testing.T) {
	q, dropped := newQueue(everyRole), 0
	for i := range maxQueued + 5 {
		dropped += q.offer(stamped{observation: observation(fmt.Sprint(i), 1)})
	}
	require.Equal(t, 5, dropped)
	first, _ := q.take()
	require.Equal(t, "5", first.observation.Key.Role)
	require.Len(t, q.waiting, maxQueued-1)
}

func TestAnAssignmentInPartsIsAppliedWhole(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		l := s.lead(t, "a", Epoch{"lease", 1}, 0)
		defer l.close()
		l.next()
		l.assign(&observationv1.Assign{Revision: 1, Full: true, More: true, Upserts: []*observationv1.RoleAssignment{encodeAssignment(assignment("prefill"))}})
		synctest.Wait()
		require.Empty(t, s.backend.assigned())
		l.assign(&observationv1.Assign{Revision: 1, Full: true, Upserts: []*observationv1.RoleAssignment{encodeAssignment(assignment("decode"))}})
		synctest.Wait()
		require.Equal(t, []Assign{{Revision: 1, Full: true, Upserts: []observe.Assignment{assignment("prefill"), assignment("decode")}}}, s.backend.assigned())
		s.stop()
	})
}

func TestARoleThatCannotBeReadIsRemovedAndTheOthersCount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		l := s.lead(t, "a", Epoch{"lease", 1}, 0)
		defer l.close()
		l.next()
		bad := encodeAssignment(assignment("decode"))
		bad.Pods[0].Port = 0
		l.assign(&observationv1.Assign{Revision: 1, Upserts: []*observationv1.RoleAssignment{bad, encodeAssignment(assignment("prefill"))}})
		synctest.Wait()
		require.Equal(t, []Assign{{Revision: 1, Upserts: []observe.Assignment{assignment("prefill")}, Removals: []observe.RoleKey{key("decode")}}}, s.backend.assigned())
		require.Equal(t, 1, count(s.metrics.refused.WithLabelValues(refusedRole)))
		line := s.logs.FilterMessage("refused roles of an assignment").All()
		require.Len(t, line, 1)
		require.Contains(t, line[0].ContextMap()["error"], "role ns/chat/decode: field pods.port")
		s.stop()
	})
}

func TestBreachesOfTheProtocolEndTheSession(t *testing.T) {
	for name, row := range map[string]struct {
		say  []*observationv1.SessionRequest
		want string
	}{
		"a second hello": {[]*observationv1.SessionRequest{helloRequest(hello("a", Epoch{"lease", 1}, 0))}, "hello may only come first"},
		"a part of another revision": {[]*observationv1.SessionRequest{
			{Message: &observationv1.SessionRequest_Assign{Assign: &observationv1.Assign{Revision: 1, More: true}}},
			{Message: &observationv1.SessionRequest_Assign{Assign: &observationv1.Assign{Revision: 2}}},
		}, "part of revision 2 in the middle of revision 1"},
		"more roles than a sampler can have": {[]*observationv1.SessionRequest{
			{Message: &observationv1.SessionRequest_Assign{Assign: &observationv1.Assign{Revision: 1, Removals: make([]*observationv1.RoleKey, maxRoles+1)}}},
		}, "more than 16384 roles"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := startSampler(t, "shard-0")
				l := s.lead(t, "a", Epoch{"lease", 1}, 0)
				defer l.close()
				l.next()
				for _, m := range row.say {
					l.say(m)
				}
				err := l.fails()
				require.Equal(t, codes.InvalidArgument, status.Code(err))
				require.ErrorContains(t, err, row.want)
				require.Empty(t, s.backend.assigned())
				s.stop()
			})
		})
	}
}

func TestMessagesOfALaterVersionAreIgnored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		l := s.lead(t, "a", Epoch{"lease", 1}, 0)
		defer l.close()
		l.next()
		l.say(&observationv1.SessionRequest{})
		s.Publish(observation("server", 1))
		require.NotNil(t, l.next().GetObservation())
		s.stop()
	})
}

func TestAPanicEndsItsCallAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		s.backend.onApply = func(Assign) { panic("broken") }
		l := s.lead(t, "a", Epoch{"lease", 1}, 0)
		defer l.close()
		l.next()
		l.assign(&observationv1.Assign{Revision: 1})
		require.Equal(t, codes.Internal, status.Code(l.fails()))
		require.Equal(t, 1, s.logs.FilterMessage("recovered from a panic in a call").Len())

		s.backend.onApply = nil
		again := s.lead(t, "a", Epoch{"lease", 1}, 0)
		defer again.close()
		require.NotNil(t, again.next().GetReady())
		s.stop()
	})
}
