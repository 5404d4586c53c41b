package cli

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/wait"

	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/stream/observations"
)

// decider is a real ObservationService on loopback.
type decider struct {
	*observations.Server
	address string
	stop    func()
}

func startDecider(t *testing.T, address string, adjust ...func(*observations.Options)) *decider {
	t.Helper()
	o := observations.Options{
		Identity: "decider-0", Leader: func() observations.Leader { return observations.Leader{} }, Log: zap.NewNop(), Registerer: prometheus.NewRegistry(),
	}
	for _, f := range adjust {
		f(&o)
	}
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	d := &decider{Server: observations.NewServer(o), address: listener.Addr().String()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx, listener) }()
	d.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(d.stop)
	return d
}

// pass of scaler chat, two roles; its observations were made at the time.
func pass(count int32) observations.Pass {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key := observe.RoleKey{Namespace: "models", Deployment: "chat", UID: "u"}
	return observations.Pass{Namespace: "models", Scaler: "chat", Time: at, DecisionID: "0a1b.3.up", Roles: []observations.Role{
		{Name: "prefill", Current: 1, Ready: 1, Raw: 1, Constrained: 1, Signal: observe.Missing, Reason: "WaitingForMetrics"},
		{Name: "decode", Shard: "sampler-0", Current: 2, Ready: 2, Raw: count, Constrained: count - 1, Signal: observe.Fresh, Reason: "Proportional",
			Observation: &observe.RoleObservation{
				Key: key, Kind: observe.Decode, Engine: observe.VLLM, State: observe.Fresh, Start: at, End: at, Sequence: 7,
				Running: observe.Known(38), Waiting: observe.Known(0), Generation: observe.Known(1234.5),
				Coverage: observe.Coverage{ReadyReplicas: 2, Targets: 2, Selected: 2, Answered: 2, Rated: 2},
			},
			Trace: []decide.Step{{Stage: decide.StageRecommend, Replicas: count, Rule: "Proportional"}, {Stage: decide.StageStep, Replicas: count - 1, Rule: decide.RuleStep}, {Stage: decide.StageBounds, Replicas: count - 1}},
		},
	}}
}

// output that one goroutine writes and another reads.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// watching is a command that runs until it is interrupted.
type watching struct {
	t         *testing.T
	out, errs output
	interrupt context.CancelFunc
	ended     chan error
}

func startWatch(t *testing.T, args ...string) *watching {
	t.Helper()
	w := &watching{t: t, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	w.interrupt = cancel
	root := newRoot()
	root.SetArgs(append([]string{"watch"}, args...))
	root.SetOut(&w.out)
	root.SetErr(&w.errs)
	go func() { w.ended <- root.ExecuteContext(ctx) }()
	t.Cleanup(cancel)
	return w
}

func (w *watching) prints(words string) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return strings.Contains(w.out.String()+w.errs.String(), words), nil
	})
	require.NoError(w.t, err, "%q in %s%s", words, &w.out, &w.errs)
}

func (w *watching) end() error {
	w.t.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-time.After(time.Minute):
		require.FailNow(w.t, "watch goes on", "%s%s", w.out.String(), w.errs.String())
		return nil
	}
}

func TestWatchPrintsEveryChangeAndEndsQuietly(t *testing.T) {
	for name, args := range map[string][]string{
		"watch.txt":     {"-n", "models"},
		"watch-all.txt": {"-A"},
		"watch.json":    {"chat", "-n", "models", "--role", "decode", "-o", "json"},
	} {
		t.Run(name, func(t *testing.T) {
			d := startDecider(t, "127.0.0.1:0")
			v := d.Lead()
			v.Publish(pass(5))
			w := startWatch(t, append(args, "--address", d.address, "--insecure-loopback")...)
			w.prints("decider-0")
			v.Publish(pass(9))
			w.prints(map[bool]string{true: `"replicas":9,`, false: "recommend 9"}[strings.HasSuffix(name, "json")])
			v.Forget("models", "chat")
			w.prints(map[bool]string{true: `"removed"`, false: "decode of scaler models/chat is gone"}[strings.HasSuffix(name, "json")])
			w.interrupt()
			require.NoError(t, w.end())
			golden(t, name, withoutAges(w.out.String())+"--- standard error output\n"+w.errs.String())
		})
	}
}

func TestWatchGoesOnWhenTheDeciderComesBack(t *testing.T) {
	d := startDecider(t, "127.0.0.1:0")
	d.Lead().Publish(pass(5))
	w := startWatch(t, "-n", "models", "--address", d.address, "--insecure-loopback")
	w.prints("leader decider-0")
	d.stop()
	w.prints("this copy of the decider stops: watch again; watching again ")
	d = startDecider(t, d.address, func(o *observations.Options) { o.Identity = "decider-1" })
	d.Lead().Publish(pass(6))
	w.prints("leader decider-1")
	w.interrupt()
	require.NoError(t, w.end())
	require.Contains(t, w.out.String(), "recommend 6 Proportional")
}

func TestWatchWaitsForADeciderThatIsNotThereYet(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	w := startWatch(t, "-A", "--address", listener.Addr().String(), "--insecure-loopback")
	w.prints("connection refused")
	w.interrupt()
	require.NoError(t, w.end())
}

func TestWatchSaysWhatIsWrongWithItsFlags(t *testing.T) {
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"an output that there is not":  {[]string{"-o", "yaml"}, "--output: \"yaml\""},
		"two namespaces":               {[]string{"-A", "-n", "a"}, "exclude each other"},
		"two names":                    {[]string{"a", "b"}, "accepts at most 1 arg"},
		"an address without a port":    {[]string{"--address", "decider"}, "--address"},
		"loopback that is none":        {[]string{"--address", "192.0.2.1:9443", "--insecure-loopback"}, "--insecure-loopback"},
		"loopback without an address":  {[]string{"--insecure-loopback"}, "--insecure-loopback"},
		"two ways to say who calls":    {[]string{"--token-file", "a", "--service-account", "b"}, "exclude each other"},
		"a flag that nobody has heard": {[]string{"--once"}, "unknown flag"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errs := run(t, append([]string{"watch"}, row.args...)...)
			require.Equal(t, 2, code)
			require.Contains(t, errs, row.want)
		})
	}
}

func TestWatchExplainsItself(t *testing.T) {
	code, out, _ := run(t, "watch", "--help")
	require.Zero(t, code)
	golden(t, "watch-help.txt", out)
}

// withoutAges takes out what depends on when the test runs.
func withoutAges(text string) string {
	return agePattern.ReplaceAllString(text, "${1}AGE")
}
