package stream

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// EncodeObservation writes o for the wire. It never fails: what is no number becomes missing, text for people is
// shortened, and lists over their limit are cut (uncovered Pods) or left out (buckets). Stale is not on the wire.
func EncodeObservation(o observe.RoleObservation) *observationv1.RoleObservation {
	return &observationv1.RoleObservation{
		Key:                       encodeKey(o.Key),
		Kind:                      kinds.encode(o.Kind),
		Engine:                    cleanText(string(o.Engine)),
		Sequence:                  o.Sequence,
		StartTime:                 encodeTime(o.Start),
		EndTime:                   encodeTime(o.End),
		Age:                       encodeDuration(o.Age),
		Interval:                  encodeDuration(o.Interval),
		Span:                      encodeDuration(o.Span),
		Replayed:                  o.Replayed,
		Coverage:                  encodeCoverage(o.Coverage),
		State:                     states.encode(o.State),
		RunningRequests:           encodeValue(o.Running),
		WaitingRequests:           encodeValue(o.Waiting),
		PromptTokensPerSecond:     encodeValue(o.Prompt),
		RawPromptTokensPerSecond:  encodeValue(o.RawPrompt),
		GenerationTokensPerSecond: encodeValue(o.Generation),
		KvCacheUsageRatio:         encodeValue(o.KVCacheUsage),
		Ttft:                      encodeLatency(o.TTFT),
		Itl:                       encodeLatency(o.ITL),
	}
}

func encodeKey(k observe.RoleKey) *observationv1.RoleKey {
	return &observationv1.RoleKey{
		Namespace: cleanName(k.Namespace), Deployment: cleanName(k.Deployment), DeploymentUid: cleanName(k.UID), Role: cleanName(k.Role),
	}
}

func encodeCoverage(c observe.Coverage) *observationv1.Coverage {
	p := &observationv1.Coverage{
		ReadyReplicas: cleanCount(c.ReadyReplicas),
		Targets:       cleanCount(c.Targets),
		Selected:      cleanCount(c.Selected),
		Answered:      cleanCount(c.Answered),
		Rated:         cleanCount(c.Rated),
	}
	for _, u := range c.Uncovered[:min(len(c.Uncovered), maxUncovered)] {
		p.Uncovered = append(p.Uncovered, &observationv1.UncoveredPod{
			Name: cleanName(u.Name), Reason: reasons.encode(u.Reason), Message: cleanText(u.Message),
		})
	}
	return p
}

func encodeLatency(l observe.Latency) *observationv1.Latency {
	if l.Source == "" || !finite(l.Milliseconds) || !finite(l.Count) || !finite(l.SumSeconds) {
		return nil
	}
	p := &observationv1.Latency{Milliseconds: l.Milliseconds, Source: sources.encode(l.Source), Count: l.Count, SumSeconds: l.SumSeconds}
	if len(l.Buckets) > maxBuckets {
		return p
	}
	for _, b := range l.Buckets {
		p.Buckets = append(p.Buckets, &observationv1.Bucket{LeSeconds: b.LESeconds, Count: b.Count})
	}
	return p
}

func encodeAssignment(a observe.Assignment) *observationv1.RoleAssignment {
	p := &observationv1.RoleAssignment{
		Key:           encodeKey(a.Key),
		Kind:          kinds.encode(a.Kind),
		Engine:        cleanText(a.Engine),
		Interval:      durationpb.New(a.Interval),
		ReadyReplicas: cleanCount(a.ReadyReplicas),
	}
	if a.LastScrapeAge >= 0 {
		p.LastScrapeAge = durationpb.New(a.LastScrapeAge)
	}
	for _, pod := range a.Pods[:min(len(a.Pods), maxPods)] {
		p.Pods = append(p.Pods, encodePod(pod))
	}
	return p
}

func encodePod(p observe.Pod) *observationv1.PodTarget {
	return &observationv1.PodTarget{
		Name:        cleanName(p.Name),
		Uid:         cleanName(p.UID),
		Incarnation: cleanName(p.Incarnation),
		Ordinal:     cleanCount(p.Ordinal),
		Address:     cleanName(p.Address),
		Port:        cleanCount(p.Port),
		Scheme:      cleanName(p.Scheme),
		Path:        cleanName(p.Path),
		Node:        cleanName(p.Node),
	}
}

// encodeValue leaves out what is missing or no number: missing is never zero.
func encodeValue(v observe.Value) *float64 {
	if !v.Valid || !finite(v.Float64) {
		return nil
	}
	return &v.Float64
}

// encodeDuration leaves out zero, and what is negative: a duration on the wire is from 0.
func encodeDuration(d time.Duration) *durationpb.Duration {
	if d <= 0 {
		return nil
	}
	return durationpb.New(d)
}

func encodeTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
