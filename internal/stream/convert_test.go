package stream

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

func oneOf[T any](t *rapid.T, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, label)
}

func drawName(t *rapid.T, label string) string {
	return rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,60}[a-z0-9])?`).Draw(t, label)
}

// drawText draws any valid UTF-8 that fits.
func drawText(t *rapid.T, label string) string { return rapid.StringN(0, 60, maxText).Draw(t, label) }

func drawKey(t *rapid.T) observe.RoleKey {
	return observe.RoleKey{Namespace: drawName(t, "namespace"), Deployment: drawName(t, "deployment"), UID: drawName(t, "uid"), Role: drawName(t, "role")}
}

func drawKind(t *rapid.T) observe.RoleKind {
	return oneOf(t, "kind", "", observe.Server, observe.Prefill, observe.Decode, observe.Encode)
}

func drawDuration(t *rapid.T, label string) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(maxDuration)).Draw(t, label))
}

func drawNumber(t *rapid.T, label string) float64 {
	return rapid.Float64Range(0, math.MaxFloat64).Draw(t, label)
}

func drawValue(t *rapid.T, label string) observe.Value {
	if rapid.Bool().Draw(t, label+" missing") {
		return observe.Value{}
	}
	return observe.Known(drawNumber(t, label))
}

func drawTime(t *rapid.T, label string) time.Time {
	return oneOf(t, label+" set", time.Time{}, time.Unix(rapid.Int64Range(0, 1<<36).Draw(t, label), rapid.Int64Range(0, 999_999_999).Draw(t, label+" ns")).UTC())
}

func drawLatency(t *rapid.T, label string) observe.Latency {
	source := oneOf(t, label+" source", "", observe.FromBucket, observe.FromMean)
	if source == "" {
		return observe.Latency{}
	}
	l := observe.Latency{Milliseconds: drawNumber(t, label), Source: source, Count: drawNumber(t, label+" count"), SumSeconds: drawNumber(t, label+" sum")}
	bound := 0.0
	for range rapid.IntRange(0, 8).Draw(t, label+" buckets") {
		bound += rapid.Float64Range(0.001, 10).Draw(t, label+" step")
		l.Buckets = append(l.Buckets, observe.Bucket{LESeconds: bound, Count: drawNumber(t, label+" bucket")})
	}
	if l.Buckets != nil {
		l.Buckets = append(l.Buckets, observe.Bucket{LESeconds: math.Inf(1), Count: drawNumber(t, label+" infinite")})
	}
	return l
}

func drawCoverage(t *rapid.T) observe.Coverage {
	c := observe.Coverage{ReadyReplicas: rapid.IntRange(0, math.MaxInt32).Draw(t, "ready"), Targets: rapid.IntRange(0, math.MaxInt32).Draw(t, "targets")}
	c.Selected = rapid.IntRange(0, c.Targets).Draw(t, "selected")
	c.Answered = rapid.IntRange(0, c.Selected).Draw(t, "answered")
	c.Rated = rapid.IntRange(0, c.Answered).Draw(t, "rated")
	for range rapid.IntRange(0, 4).Draw(t, "uncovered") {
		c.Uncovered = append(c.Uncovered, observe.UncoveredPod{
			Name: drawName(t, "pod"), Message: drawText(t, "message"),
			Reason: oneOf(t, "reason", "", observe.OverCap, observe.Unreachable, observe.Timeout, observe.HTTPStatus, observe.TooLarge,
				observe.Malformed, observe.NoEngineSeries, observe.InvalidValue, observe.NoBaseline, observe.Reset, observe.NotScraped),
		})
	}
	return c
}

func drawObservation(t *rapid.T) observe.RoleObservation {
	return observe.RoleObservation{
		Key: drawKey(t), Kind: drawKind(t), Engine: oneOf(t, "engine", "", observe.VLLM, observe.SGLang), Sequence: rapid.Uint64().Draw(t, "sequence"),
		Start: drawTime(t, "start"), End: drawTime(t, "end"),
		Age: drawDuration(t, "age"), Interval: drawDuration(t, "interval"), Span: drawDuration(t, "span"), Replayed: rapid.Bool().Draw(t, "replayed"),
		Coverage: drawCoverage(t), State: oneOf(t, "state", observe.Fresh, observe.Idle, observe.Missing),
		Running: drawValue(t, "running"), Waiting: drawValue(t, "waiting"), Prompt: drawValue(t, "prompt"), RawPrompt: drawValue(t, "raw prompt"),
		Generation: drawValue(t, "generation"), KVCacheUsage: drawValue(t, "kv"), TTFT: drawLatency(t, "ttft"), ITL: drawLatency(t, "itl"),
	}
}

func drawAssignment(t *rapid.T) observe.Assignment {
	a := observe.Assignment{
		Key: drawKey(t), Kind: drawKind(t), Engine: drawText(t, "engine"), Interval: 1 + drawDuration(t, "interval")/2,
		ReadyReplicas: rapid.IntRange(0, math.MaxInt32).Draw(t, "ready"), LastScrapeAge: oneOf(t, "last scrape", -1, drawDuration(t, "last scrape age")),
	}
	for range rapid.IntRange(0, 4).Draw(t, "pods") {
		a.Pods = append(a.Pods, observe.Pod{
			Name: drawName(t, "pod"), UID: drawName(t, "pod uid"), Incarnation: drawText(t, "incarnation"), Ordinal: rapid.IntRange(0, math.MaxInt32).Draw(t, "ordinal"),
			Address: oneOf(t, "address", "10.1.2.3", "127.7.128.9", "fd00::12"), Port: rapid.IntRange(1, 65535).Draw(t, "port"),
			Scheme: oneOf(t, "scheme", "http", "https"), Path: "/" + drawText(t, "path"), Node: drawText(t, "node"),
		})
	}
	return a
}

// overTheWire marshals and unmarshals m into a new message of its type.
func overTheWire[M proto.Message](t require.TestingT, m M) M {
	data, err := proto.Marshal(m)
	require.NoError(t, err)
	read := m.ProtoReflect().New().Interface().(M)
	require.NoError(t, proto.Unmarshal(data, read))
	return read
}

func TestEveryObservationSurvivesTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawObservation(t)
		read, err := DecodeObservation(overTheWire(t, EncodeObservation(o)))
		require.NoError(t, err)
		require.Equal(t, o, read)
	})
}

func TestEveryAssignmentSurvivesTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, d := drawAssignment(t), &decoder{}
		read := d.assignment(overTheWire(t, encodeAssignment(a)))
		require.NoError(t, d.err)
		require.Equal(t, a, read)
	})
}

func TestEveryEnumValueHasItsNumberAndBack(t *testing.T) {
	require.Len(t, kinds.numbers, len(observationv1.RoleKind_name)-1)
	require.Len(t, states.numbers, len(observationv1.SignalState_name)-1)
	require.Len(t, reasons.numbers, len(observationv1.UncoveredReason_name)-1)
	require.Len(t, sources.numbers, len(observationv1.LatencySource_name)-1)
	require.Len(t, reasons.values, len(reasons.numbers), "no two reasons share a number")
}

// observation is a small valid one.
func observation(role string, sequence uint64) observe.RoleObservation {
	return observe.RoleObservation{
		Key: key(role), Kind: observe.Server, Engine: observe.VLLM, Sequence: sequence, Interval: 15 * time.Second,
		Coverage: observe.Coverage{ReadyReplicas: 1, Targets: 1, Selected: 1, Answered: 1, Rated: 1}, State: observe.Fresh, Running: observe.Known(2),
	}
}

func key(role string) observe.RoleKey {
	return observe.RoleKey{Namespace: "ns", Deployment: "chat", UID: "uid-1", Role: role}
}

func assignment(role string) observe.Assignment {
	return observe.Assignment{
		Key: key(role), Kind: observe.Server, Engine: "vllm", Interval: 15 * time.Second, ReadyReplicas: 1, LastScrapeAge: -1,
		Pods: []observe.Pod{{Name: role + "-0", UID: "pod-uid", Incarnation: "c1/0", Address: "10.0.0.1", Port: 8000, Scheme: "http", Path: "/metrics", Node: "n1"}},
	}
}

func TestHostileObservationsAreRefusedByField(t *testing.T) {
	nan, negative := math.NaN(), -1.0
	for name, row := range map[string]struct {
		spoil func(*observationv1.RoleObservation)
		field string
	}{
		"no key":                          {func(p *observationv1.RoleObservation) { p.Key = nil }, "key.namespace"},
		"a key without UID":               {func(p *observationv1.RoleObservation) { p.Key.DeploymentUid = "" }, "key.deployment_uid"},
		"an endless name":                 {func(p *observationv1.RoleObservation) { p.Key.Role = strings.Repeat("r", 300) }, "key.role"},
		"an endless engine":               {func(p *observationv1.RoleObservation) { p.Engine = strings.Repeat("e", 300) }, "engine"},
		"running is not a number":         {func(p *observationv1.RoleObservation) { p.RunningRequests = &nan }, "running_requests"},
		"negative demand":                 {func(p *observationv1.RoleObservation) { p.PromptTokensPerSecond = &negative }, "prompt_tokens_per_second"},
		"a negative age":                  {func(p *observationv1.RoleObservation) { p.Age = durationpb.New(-1) }, "age"},
		"a broken duration":               {func(p *observationv1.RoleObservation) { p.Span = &durationpb.Duration{Seconds: 1, Nanos: -5} }, "span"},
		"a time before the year 1":        {func(p *observationv1.RoleObservation) { p.EndTime = &timestamppb.Timestamp{Seconds: -1 << 50} }, "end_time"},
		"a negative count":                {func(p *observationv1.RoleObservation) { p.Coverage.Rated = -1 }, "coverage.rated"},
		"more answers than selected Pods": {func(p *observationv1.RoleObservation) { p.Coverage.Answered, p.Coverage.Rated = 2, 2 }, "coverage"},
		"a huge list of Pods":             {func(p *observationv1.RoleObservation) { p.Coverage.Uncovered = make([]*observationv1.UncoveredPod, 65) }, "coverage.uncovered"},
		"an uncovered Pod that is nil":    {func(p *observationv1.RoleObservation) { p.Coverage.Uncovered = []*observationv1.UncoveredPod{nil} }, "coverage.uncovered.name"},
		"a huge list of buckets":          {func(p *observationv1.RoleObservation) { p.Ttft.Buckets = make([]*observationv1.Bucket, 513) }, "ttft.buckets"},
		"bounds that do not ascend": {func(p *observationv1.RoleObservation) {
			p.Ttft.Buckets = []*observationv1.Bucket{{LeSeconds: 1}, {LeSeconds: 1}}
		}, "ttft.buckets.le_seconds"},
		"a bound that is not a number": {func(p *observationv1.RoleObservation) { p.Ttft.Buckets = []*observationv1.Bucket{{LeSeconds: nan}} }, "ttft.buckets.le_seconds"},
		"a negative latency":           {func(p *observationv1.RoleObservation) { p.Ttft.Milliseconds = -1 }, "ttft.milliseconds"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observation("server", 1)
			o.TTFT = observe.Latency{Milliseconds: 5, Source: observe.FromMean, Count: 1}
			p := EncodeObservation(o)
			_, err := DecodeObservation(p)
			require.NoError(t, err)
			row.spoil(p)
			_, err = DecodeObservation(p)
			require.ErrorContains(t, err, "field "+row.field+":")
		})
	}
	_, err := DecodeObservation(nil)
	require.ErrorContains(t, err, "field observation:")
}

func TestHostileAssignmentsAreRefusedByField(t *testing.T) {
	for name, row := range map[string]struct {
		spoil func(*observationv1.RoleAssignment)
		field string
	}{
		"no interval":                {func(p *observationv1.RoleAssignment) { p.Interval = nil }, "interval"},
		"a negative interval":        {func(p *observationv1.RoleAssignment) { p.Interval = durationpb.New(-time.Second) }, "interval"},
		"a negative last scrape":     {func(p *observationv1.RoleAssignment) { p.LastScrapeAge = durationpb.New(-1) }, "last_scrape_age"},
		"a Pod that is nil":          {func(p *observationv1.RoleAssignment) { p.Pods[0] = nil }, "pods.name"},
		"a host name for an address": {func(p *observationv1.RoleAssignment) { p.Pods[0].Address = "metadata.internal" }, "pods.address"},
		"an address with a zone":     {func(p *observationv1.RoleAssignment) { p.Pods[0].Address = "fe80::1%eth0" }, "pods.address"},
		"port 0":                     {func(p *observationv1.RoleAssignment) { p.Pods[0].Port = 0 }, "pods.port"},
		"a port over 65535":          {func(p *observationv1.RoleAssignment) { p.Pods[0].Port = 70000 }, "pods.port"},
		"another scheme":             {func(p *observationv1.RoleAssignment) { p.Pods[0].Scheme = "file" }, "pods.scheme"},
		"a path that is a host":      {func(p *observationv1.RoleAssignment) { p.Pods[0].Path = "@evil/" }, "pods.path"},
		"a huge list of Pods":        {func(p *observationv1.RoleAssignment) { p.Pods = make([]*observationv1.PodTarget, 2049) }, "pods"},
	} {
		t.Run(name, func(t *testing.T) {
			p, d := encodeAssignment(assignment("server")), &decoder{}
			d.assignment(p)
			require.NoError(t, d.err)
			row.spoil(p)
			d.assignment(p)
			require.ErrorContains(t, d.err, "field "+row.field+":")
		})
	}
}

func TestAnAgeOfCenturiesDoesNotBecomeNewsWhenItGrows(t *testing.T) {
	p := EncodeObservation(observation("server", 1))
	p.Age = durationpb.New(math.MaxInt64)
	o, err := DecodeObservation(p)
	require.NoError(t, err)
	require.Greater(t, o.Age+time.Hour, o.Age)
}

func TestUnknownEnumsBecomeTheCarefulValue(t *testing.T) {
	p := EncodeObservation(observation("server", 1))
	p.Kind, p.State = 99, 99
	p.Ttft = &observationv1.Latency{Milliseconds: 1, Source: 99}
	p.Coverage.Uncovered = []*observationv1.UncoveredPod{{Name: "pod", Reason: 99}}
	o, err := DecodeObservation(p)
	require.NoError(t, err)
	require.Equal(t, observe.RoleKind(""), o.Kind)
	require.Equal(t, observe.Missing, o.State)
	require.False(t, o.TTFT.Value().Valid)
	require.Equal(t, []observe.UncoveredPod{{Name: "pod"}}, o.Coverage.Uncovered)
}

func TestWhatIsNoNumberOrTooLongStillMakesAMessage(t *testing.T) {
	o := observation("server", 1)
	o.State, o.Age = observe.Stale, -time.Second
	o.Running, o.TTFT = observe.Known(math.NaN()), observe.Latency{Source: observe.FromMean, Milliseconds: math.Inf(1)}
	o.ITL = observe.Latency{Source: observe.FromMean, Milliseconds: 1, Buckets: make([]observe.Bucket, maxBuckets+1)}
	for range 100 {
		o.Coverage.Uncovered = append(o.Coverage.Uncovered, observe.UncoveredPod{Name: "pod", Message: "\xff" + strings.Repeat("é", 200)})
	}
	read, err := DecodeObservation(overTheWire(t, EncodeObservation(o)))
	require.NoError(t, err)
	require.Equal(t, observe.Missing, read.State, "stale is not on the wire")
	require.Zero(t, read.Age)
	require.False(t, read.Running.Valid)
	require.False(t, read.TTFT.Value().Valid)
	require.Equal(t, observe.Known(1), read.ITL.Value())
	require.Empty(t, read.ITL.Buckets)
	require.Len(t, read.Coverage.Uncovered, maxUncovered)
	message := read.Coverage.Uncovered[0].Message
	require.True(t, utf8.ValidString(message))
	require.LessOrEqual(t, len(message), maxText)
	require.True(t, strings.HasPrefix(message, "\uFFFDé"), "valid text is kept")
}

// FuzzDecode feeds bytes from outside through both directions: never a panic, and what was accepted survives the wire.
func FuzzDecode(f *testing.F) {
	seed := func(m proto.Message) {
		data, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(data)
	}
	messages, _ := parts(Assign{Revision: 1, Full: true, Upserts: []observe.Assignment{assignment("server")}, Removals: []observe.RoleKey{key("decode")}})
	seed(&observationv1.SessionRequest{Message: &observationv1.SessionRequest_Assign{Assign: messages[0]}})
	seed(&observationv1.SessionResponse{Message: &observationv1.SessionResponse_Observation{Observation: EncodeObservation(observation("server", 1))}})
	f.Fuzz(func(t *testing.T, data []byte) {
		var answer observationv1.SessionResponse
		if proto.Unmarshal(data, &answer) == nil {
			if o, err := DecodeObservation(answer.GetObservation()); err == nil {
				again, err := DecodeObservation(overTheWire(t, EncodeObservation(o)))
				require.NoError(t, err)
				require.Equal(t, o, again)
			}
			_, _ = checkReady(answer.GetReady())
		}
		var request observationv1.SessionRequest
		if proto.Unmarshal(data, &request) == nil {
			_, _ = checkHello(request.GetHello())
			assign, whole, _ := new(assembly).add(request.GetAssign())
			if whole {
				again, tooLarge := parts(assign)
				require.Empty(t, tooLarge)
				require.NotEmpty(t, again)
			}
		}
	})
}
