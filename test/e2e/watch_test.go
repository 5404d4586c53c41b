package e2e

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/controlplane"
	"gpustack.ai/model-deployment-scaler/internal/sim"
)

// follower is `kubectl mds watch -o json` as a process.
type follower struct {
	s      *stage
	cmd    *exec.Cmd
	errs   bytes.Buffer
	lines  *bufio.Scanner
	ending context.CancelFunc
	leader string // that the last snapshot came from
}

func (s *stage) follow(args ...string) *follower {
	s.t.Helper()
	binary, err := controlplane.Binary("kubectl-mds")
	require.NoError(s.t, err)
	f := &follower{s: s}
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*patience)
	f.ending = cancel
	s.t.Cleanup(cancel)
	f.cmd = exec.CommandContext(ctx, binary, append([]string{"watch", "-o", "json", "-n", s.namespace}, args...)...)
	f.cmd.Stderr = &f.errs
	out, err := f.cmd.StdoutPipe()
	require.NoError(s.t, err)
	f.lines = bufio.NewScanner(out)
	f.lines.Buffer(nil, 1<<20)
	require.NoError(s.t, f.cmd.Start())
	return f
}

// until reads messages until one is as wanted.
func (f *follower) until(what string, wanted func(*observationv1.ObservationServiceWatchResponse) bool) *observationv1.ObservationServiceWatchResponse {
	f.s.t.Helper()
	for f.lines.Scan() {
		m := &observationv1.ObservationServiceWatchResponse{}
		require.NoError(f.s.t, protojson.Unmarshal(f.lines.Bytes(), m), f.lines.Text())
		if complete := m.GetSnapshotComplete(); complete != nil {
			f.leader = complete.GetLeader()
		}
		if wanted(m) {
			return m
		}
	}
	f.ending()
	_ = f.cmd.Wait()
	require.FailNow(f.s.t, "the watch ended before "+what, f.errs.String())
	return nil
}

// interrupt is Ctrl-C.
func (f *follower) interrupt() {
	f.s.t.Helper()
	require.NoError(f.s.t, f.cmd.Process.Signal(os.Interrupt))
	for f.lines.Scan() {
	}
	require.NoError(f.s.t, f.cmd.Wait(), f.errs.String())
}

func TestKubectlWatchGoesOnWhenTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.deploy("chat", "vLLM", 1, quiet)
	s.scale(policy{name: "chat", target: "chat", mode: workerv1.ModeActive, min: 1, max: 5, step: 1})
	s.bound("chat", "chat")
	token := s.viewer("viewer", serviceName)
	_, standby := s.deciders()
	s.eventually("the right is in force", func() bool { _, err := s.list(standby[0], token, s.namespace); return err == nil })
	f := s.follow("chat", "--address", grpcAddress(standby[0]), "--ca-file", s.file("ca.crt", s.authority()), "--token-file", s.file("token", []byte(token)))

	f.until("a snapshot", func(m *observationv1.ObservationServiceWatchResponse) bool { return m.GetSnapshotComplete() != nil })
	s.Fleet.SetTraffic(s.namespace, "chat", sim.Constant(30, 200, 120)) // 60 requests at a time: 8 replicas, of which 5 may be
	f.until("growth, with what decided it", func(m *observationv1.ObservationServiceWatchResponse) bool {
		plan := m.GetObservation().GetPlan()
		return plan.GetCurrentReplicas() > 1 && len(plan.GetTrace()) > 0
	})

	killed := f.leader // not the first one, perhaps: another test kills leaders, too
	s.kill(killed)
	f.until("another leader", func(*observationv1.ObservationServiceWatchResponse) bool { return f.leader != killed })
	f.until("the ramp to go on to its end, of which the trace says what it is", func(m *observationv1.ObservationServiceWatchResponse) bool {
		plan := m.GetObservation().GetPlan()
		return plan.GetCurrentReplicas() == 5 && stageThatActed(plan) == "bounds"
	})
	f.interrupt()
	require.Contains(t, f.errs.String(), "watching again")
}

// stageThatActed last.
func stageThatActed(p *observationv1.RolePlan) (stage string) {
	for _, step := range p.GetTrace() {
		if step.GetRule() != "" {
			stage = step.GetStage()
		}
	}
	return stage
}
