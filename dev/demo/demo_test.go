package main

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/dev/harness"
)

func TestTheVerdictIsAboutTheMainJob(t *testing.T) {
	tests := []struct {
		name string
		h    history
		says string
	}{
		{"it grew and came back", history{most: 4, last: 1}, ""},
		{"it never grew", history{most: 1, last: 1}, "never grew"},
		{"it was never seen", history{}, "never grew"},
		{"it did not come back", history{most: 4, last: 2}, "still at 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.h.verdict()
			if tt.says == "" {
				require.NoError(t, err)
				require.Zero(t, code(err))
				return
			}
			require.ErrorContains(t, err, tt.says)
			require.Equal(t, 1, code(err))
		})
	}
}

func TestAnInterruptionIsNoFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorContains(t, interrupted(ctx, errors.New("broken")), "broken")
	cancel()
	require.Equal(t, 130, code(interrupted(ctx, errors.New("broken"))))
	require.Equal(t, 1, code(interrupted(ctx, harness.ErrUnclean)), "what stays behind is told")
}

func TestAPipeGetsPlainLines(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, lastAt: -1}
	now := moment{rate: 2, current: 1, ready: 1, reason: "WithinTolerance", decision: "-"}
	s.show(now, 0)
	now.inFlight = 3
	s.show(now, time.Second)
	now.current = 2
	s.show(now, 2*time.Second)
	s.show(now, 20*time.Second)
	require.Equal(t, 3, bytes.Count(out.Bytes(), []byte("\n")), "one row at first, one for a change, one after a quiet while")
	require.NotContains(t, out.String(), "\r")
}

func TestATerminalGetsAProgressBarThatGoesAway(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, terminal: true, lastAt: -1}
	s.show(moment{current: 1}, scriptLength/2)
	require.Contains(t, out.String(), "[####################....................]  50%")
	out.Reset()
	s.line("done")
	require.Equal(t, "\r\x1b[2Kdone\n", out.String())
	require.Contains(t, progress(2*scriptLength, moment{current: 3}), "100%  the load is gone; 3 replicas")
}
