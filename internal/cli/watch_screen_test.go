package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
)

var agePattern = regexp.MustCompile(`( {2}|"age":")\d+(\.\d+)?s`)

func seen(scaler, role string, count int32) *observationv1.ObservationServiceWatchResponse {
	return &observationv1.ObservationServiceWatchResponse{Message: &observationv1.ObservationServiceWatchResponse_Observation{
		Observation: &observationv1.ScalerObservation{Namespace: "models", Scaler: scaler, Role: role,
			Observation: &observationv1.RoleObservation{Age: durationpb.New(2 * time.Second), RunningRequests: new(float64)},
			Plan:        &observationv1.RolePlan{CurrentReplicas: 2, ReadyReplicas: 2, RawRecommendedReplicas: count, ConstrainedReplicas: count, SignalState: "Fresh", Reason: "Proportional"},
		},
	}}
}

func gone(scaler, role string) *observationv1.ObservationServiceWatchResponse {
	return &observationv1.ObservationServiceWatchResponse{Message: &observationv1.ObservationServiceWatchResponse_Removed{
		Removed: &observationv1.Removed{Namespace: "models", Scaler: scaler, Role: role},
	}}
}

func complete(forwardedBy string) *observationv1.ObservationServiceWatchResponse {
	return &observationv1.ObservationServiceWatchResponse{Message: &observationv1.ObservationServiceWatchResponse_SnapshotComplete{
		SnapshotComplete: &observationv1.SnapshotComplete{Leader: "decider-0", ForwardedBy: forwardedBy},
	}}
}

// terminal is what a terminal shows after what was written to it: it knows the sequences that screen uses.
func terminal(written string) string {
	var lines []string
	at := 0
	for len(written) > 0 {
		switch {
		case strings.HasPrefix(written, "\x1b[J"):
			lines, written = lines[:min(at, len(lines))], written[3:]
		case strings.HasPrefix(written, "\x1b["):
			up, rest, _ := strings.Cut(written[2:], "A")
			for range atoi(up) {
				at--
			}
			written = rest
		default:
			line, rest, _ := strings.Cut(written, "\x1b[K\n")
			line = strings.TrimPrefix(line, "\r")
			if at == len(lines) {
				lines = append(lines, "")
			}
			lines[at], written = line, rest
			at++
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func atoi(s string) (n int) {
	for _, c := range s {
		n = 10*n + int(c-'0')
	}
	return n
}

func TestATerminalIsDrawnInPlace(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newScreen(&out, false, func() (int, int) { return 160, 8 })
	s.now = func() time.Time { return now }
	var views []string
	look := func(title string) {
		require.NoError(t, s.refresh())
		views = append(views, "--- "+title+"\n"+terminal(out.String()))
	}
	look("before anything is known")

	s.begin()
	require.NoError(t, s.show(seen("chat", "prefill", 3)))
	require.NoError(t, s.show(seen("chat", "decode", 4)))
	require.NoError(t, s.show(complete("")))
	look("a snapshot")
	now = now.Add(3 * time.Second)
	require.NoError(t, s.show(seen("chat", "decode", 5)))
	look("a change, and three seconds")
	require.NoError(t, s.show(gone("chat", "prefill")))
	look("a role is gone")

	s.note("the leader decider-0: Unavailable; watching again as soon as there is an answer")
	look("the connection is lost")
	s.begin()
	require.NoError(t, s.show(seen("rank", "server", 1)))
	require.NoError(t, s.show(complete("decider-1")))
	look("another snapshot, without what went meanwhile")
	for _, role := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		require.NoError(t, s.show(seen("rank", role, 1)))
	}
	look("more than fits")
	golden(t, "watch-screen.txt", strings.Join(views, ""))
}

func TestALineNeverWrapsNorMovesTheCursor(t *testing.T) {
	require.Equal(t, "a b  [2Jc", cut("a\tb\n\x1b[2Jc", 80))
	require.Equal(t, "short", cut("short", 5))
	require.Equal(t, "abcd…", cut("abcdefgh", 5))
	require.Equal(t, "äöü…", cut("äöüäö", 4))
}
