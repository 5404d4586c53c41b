package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
)

// jsonLines prints every message as one line of JSON.
type jsonLines struct{ out, errs io.Writer }

func (j *jsonLines) begin()         {}
func (j *jsonLines) refresh() error { return nil }
func (j *jsonLines) note(s string)  { fmt.Fprintf(j.errs, "%s: %s\n", name, s) }

func (j *jsonLines) show(m *observationv1.ObservationServiceWatchResponse) error {
	text, err := protojson.Marshal(m)
	if err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil { // protojson spaces at random
		return fmt.Errorf("printing: %w", err)
	}
	line.WriteByte('\n')
	_, err = line.WriteTo(j.out)
	return err
}

// plainLines prints a line for every change, in columns of fixed width: what comes next is not known.
type plainLines struct {
	out, errs io.Writer
	all       bool
	begun     bool
}

func (p *plainLines) begin()         {}
func (p *plainLines) refresh() error { return nil }
func (p *plainLines) note(s string)  { fmt.Fprintf(p.errs, "%s: %s\n", name, s) }

func (p *plainLines) show(m *observationv1.ObservationServiceWatchResponse) error {
	if !p.begun {
		p.begun = true
		if err := p.line(headCells(p.all)); err != nil {
			return err
		}
	}
	switch {
	case m.GetObservation() != nil:
		return p.line(rowCells(m.GetObservation(), 0, p.all))
	case m.GetRemoved() != nil:
		r := m.GetRemoved()
		p.note(fmt.Sprintf("role %s of scaler %s/%s is gone", r.GetRole(), r.GetNamespace(), r.GetScaler()))
	case m.GetSnapshotComplete() != nil:
		p.note(answeredBy(m.GetSnapshotComplete()))
	}
	return nil
}

var plainWidths = []int{14, 10, 7, 5, 7, 7, 7, 8, 8, 3, 5, 22, 5, 0}

func (p *plainLines) line(cells []string) error {
	widths := plainWidths
	if p.all {
		widths = append([]int{14}, widths...)
	}
	var b strings.Builder
	for i, c := range cells {
		fmt.Fprintf(&b, "%-*s  ", widths[i], c)
	}
	_, err := fmt.Fprintln(p.out, strings.TrimRight(b.String(), " "))
	return err
}

// answeredBy names the leader, and the copy between.
func answeredBy(c *observationv1.SnapshotComplete) string {
	if c.GetForwardedBy() != "" {
		return fmt.Sprintf("leader %s, through %s", c.GetLeader(), c.GetForwardedBy())
	}
	return "leader " + c.GetLeader()
}

func headCells(all bool) []string {
	cells := []string{"SCALER", "ROLE", "CURRENT", "READY", "SIGNALS", "RUNNING", "WAITING", "PROMPT/S", "TOKENS/S", "RAW", "COUNT", "REASON", "AGE", "STAGES"}
	if all {
		return append([]string{"NAMESPACE"}, cells...)
	}
	return cells
}

// rowCells of a role, its observation being older by since than when it was sent.
func rowCells(o *observationv1.ScalerObservation, since time.Duration, all bool) []string {
	seen, plan := o.GetObservation(), o.GetPlan()
	age := "-"
	if seen != nil {
		age = fmt.Sprintf("%.0fs", (seen.GetAge().AsDuration() + since).Seconds())
	}
	cells := []string{
		o.GetScaler(), o.GetRole(), fmt.Sprint(plan.GetCurrentReplicas()), fmt.Sprint(plan.GetReadyReplicas()), cmp.Or(plan.GetSignalState(), "-"),
		rounded(seen.GetRunningRequests(), seen != nil && seen.RunningRequests != nil), rounded(seen.GetWaitingRequests(), seen != nil && seen.WaitingRequests != nil),
		rounded(seen.GetPromptTokensPerSecond(), seen != nil && seen.PromptTokensPerSecond != nil),
		rounded(seen.GetGenerationTokensPerSecond(), seen != nil && seen.GenerationTokensPerSecond != nil),
		fmt.Sprint(plan.GetRawRecommendedReplicas()), fmt.Sprint(plan.GetConstrainedReplicas()), cmp.Or(plan.GetReason(), "-"), age, stagesOf(o),
	}
	if all {
		return append([]string{o.GetNamespace()}, cells...)
	}
	return cells
}

func rounded(v float64, known bool) string {
	if !known {
		return "-"
	}
	return fmt.Sprintf("%.0f", v)
}

// stagesOf names the stages at which something acted, as replay does, and what was written.
func stagesOf(o *observationv1.ScalerObservation) string {
	if o.GetHold() != "" {
		return "nothing was planned: " + printable(o.GetHold())
	}
	var acted []string
	for _, s := range o.GetPlan().GetTrace() {
		if s.GetRule() != "" {
			acted = append(acted, fmt.Sprintf("%s %d %s", s.GetStage(), s.GetReplicas(), s.GetRule()))
		}
	}
	if id := o.GetPlan().GetDecisionId(); id != "" {
		acted = append(acted, "wrote "+id)
	}
	return cmp.Or(strings.Join(acted, ", "), "-")
}
