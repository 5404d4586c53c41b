package observations

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
)

func (s *served) list(ctx context.Context, namespace string) error {
	_, err := s.client.List(ctx, &observationv1.ObservationServiceListRequest{Selector: &observationv1.ObservationSelector{Namespace: namespace}})
	return err
}

func TestWhoMayNotIsToldWhyAndCounted(t *testing.T) {
	for name, row := range map[string]struct {
		token, namespace string
		code             codes.Code
		words            []string
		reason           string
	}{
		"nobody in particular": {"", "a", codes.Unauthenticated,
			[]string{"who calls is not known", "kubectl create token SERVICE_ACCOUNT --audience " + audience}, refusedAnonymous},
		"a token for somebody else": {"stolen", "a", codes.Unauthenticated,
			[]string{"another audience", "--audience " + audience}, refusedToken},
		"a user elsewhere":   {"ann", "b", codes.PermissionDenied, []string{`ann may not watch namespace "b"`}, refusedForbidden},
		"a user of everyone": {"ann", "", codes.PermissionDenied, []string{`ann may not watch namespace ""`}, refusedForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *served) {
				s.Lead()
				ctx := t.Context()
				if row.token != "" {
					ctx = as(ctx, row.token)
				}
				err := s.list(ctx, row.namespace)
				require.Equal(t, row.code, status.Code(err), err)
				stream, err2 := s.client.Watch(ctx, &observationv1.ObservationServiceWatchRequest{Selector: &observationv1.ObservationSelector{Namespace: row.namespace}})
				require.NoError(t, err2)
				_, err2 = stream.Recv()
				require.Equal(t, err.Error(), err2.Error(), "both calls say the same")
				for _, words := range row.words {
					require.ErrorContains(t, err, words)
				}
				require.Equal(t, 2, s.refused(row.reason))
				require.Zero(t, count(s.metrics.watches))
			})
		})
	}
}

func TestWhoMayMay(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		s.Lead()
		require.NoError(t, s.list(as(t.Context(), "ann"), "a"))
		require.NoError(t, s.list(as(t.Context(), "root"), ""))
		require.NoError(t, s.list(metadata.AppendToOutgoingContext(t.Context(), "authorization", "bearer  ann "), "a"), "the scheme has no case")
	})
}

func TestAnswersAreRememberedForAWhile(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		s.Lead()
		ctx := as(t.Context(), "ann")
		require.NoError(t, s.list(ctx, "a"))
		require.Error(t, s.list(ctx, "b"))
		require.Equal(t, 3, s.registrar.questions(), "one token, two namespaces")
		for range 10 {
			require.NoError(t, s.list(ctx, "a"))
			require.Error(t, s.list(ctx, "b"))
		}
		require.Equal(t, 3, s.registrar.questions())

		s.registrar.set(func(r *registrar) { r.rights["ann"] = []string{"b"} })
		time.Sleep(refusedFor + time.Millisecond) // the bubble's time
		require.NoError(t, s.list(ctx, "b"), "a right that was given counts soon")
		require.NoError(t, s.list(ctx, "a"))
		time.Sleep(allowedFor)
		require.Error(t, s.list(ctx, "a"), "a right that was taken away counts within a minute")
	})
}

func TestAnAPIServerThatDoesNotAnswerIsNotRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		s.Lead()
		s.registrar.set(func(r *registrar) { r.down = true })
		err := s.list(as(t.Context(), "ann"), "a")
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "connection refused; try again")
		require.Equal(t, 1, s.refused(refusedReview))
		s.registrar.set(func(r *registrar) { r.down = false })
		require.NoError(t, s.list(as(t.Context(), "ann"), "a"))
	})
}

func TestAnOpenWatchEndsWhenTheRightIsTakenAway(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		v := s.Lead()
		w := s.watch("ann", &observationv1.ObservationSelector{Namespace: "a"})
		require.Equal(t, "complete by decider-0", w.next())
		s.registrar.set(func(r *registrar) { r.down = true })
		time.Sleep(5 * reviewEvery) // the bubble's time
		v.Publish(pass("a", "chat", 1, "server"))
		require.Equal(t, "a/chat/server=1", w.next(), "no answer is no reason to end what was allowed")

		s.registrar.set(func(r *registrar) { r.down, r.rights["ann"] = false, nil })
		began := time.Now()
		w.fails(codes.PermissionDenied, "ann may not watch")
		require.LessOrEqual(t, time.Since(began), 2*reviewEvery)
	})
}

func TestWatchesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		s.Lead()
		here := &observationv1.ObservationSelector{Namespace: "a"}
		ctx, cancel := context.WithCancel(as(t.Context(), "ann"))
		for range maxWatchesOfAUser {
			stream, err := s.client.Watch(ctx, &observationv1.ObservationServiceWatchRequest{Selector: here})
			require.NoError(t, err)
			require.Equal(t, "complete by decider-0", (&watcher{t, stream}).next())
		}
		s.watch("ann", here).fails(codes.ResourceExhausted, "watches of ann are open already")
		require.Equal(t, 1, s.refused(refusedLimit))
		require.Equal(t, "complete by decider-0", s.watch("root", here).next(), "others are not locked out")
		cancel()
		synctest.Wait()
		require.Equal(t, "complete by decider-0", s.watch("ann", here).next())
	})
	p := places{byUser: map[string]int{}}
	for range maxWatches {
		require.NoError(t, p.take(caller{copy: true}), "a copy forwards for many users")
	}
	require.Equal(t, codes.ResourceExhausted, status.Code(p.take(caller{})))
	for range maxWatches {
		p.leave(caller{copy: true})
	}
	require.Zero(t, p.all)
	require.Empty(t, p.byUser)
}

func TestHealthIsOpenAndReflectionIsNot(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		health := healthv1.NewHealthClient(s.conn)
		answer, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "modelscaler.observation.v1.ObservationService"})
		require.NoError(t, err)
		require.Equal(t, healthv1.HealthCheckResponse_SERVING, answer.GetStatus())
		watch, err := health.Watch(t.Context(), &healthv1.HealthCheckRequest{})
		require.NoError(t, err)
		_, err = watch.Recv()
		require.Equal(t, codes.Unauthenticated, status.Code(err), "a stream costs more than a probe needs")

		ask := func(ctx context.Context) ([]string, error) {
			stream, err := reflectionv1.NewServerReflectionClient(s.conn).ServerReflectionInfo(ctx)
			require.NoError(t, err)
			_ = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
			answer, err := stream.Recv()
			var names []string
			for _, service := range answer.GetListServicesResponse().GetService() {
				names = append(names, service.GetName())
			}
			return names, err
		}
		_, err = ask(t.Context())
		require.Equal(t, codes.Unauthenticated, status.Code(err))
		names, err := ask(as(t.Context(), "ann"))
		require.NoError(t, err)
		require.Contains(t, strings.Join(names, " "), "modelscaler.observation.v1.ObservationService")
	})
}
