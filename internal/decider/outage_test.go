package decider

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/kube"
)

// proxy stands between a decider and its API server, or a sampler, and can cut them off from each other.
type proxy struct {
	listener net.Listener
	upstream string

	mu          sync.Mutex
	cut, frozen bool
	connections map[net.Conn]bool
}

// throughProxy lets deciders of this world talk through a proxy.
func (w *world) throughProxy() *proxy {
	w.t.Helper()
	config, err := clientcmd.LoadFromFile(w.kubeconfig)
	require.NoError(w.t, err)
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	server, err := url.Parse(cluster.Server)
	require.NoError(w.t, err)
	p := startProxy(w.t, server.Host)
	cluster.TLSServerName, cluster.Server = server.Hostname(), "https://"+p.listener.Addr().String()
	w.kubeconfig = filepath.Join(w.t.TempDir(), "kubeconfig")
	require.NoError(w.t, clientcmd.WriteToFile(*config, w.kubeconfig))
	return p
}

func startProxy(t *testing.T, upstream string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: listener, upstream: upstream, connections: make(map[net.Conn]bool)}
	t.Cleanup(func() { _ = listener.Close(); p.cutOff(true) })
	go p.serve()
	return p
}

func (p *proxy) serve() {
	for {
		down, err := p.listener.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", p.upstream)
		if err != nil || !p.keep(down, up) {
			_ = down.Close()
			continue
		}
		go p.copy(up, down)
		go p.copy(down, up)
	}
}

// copy moves bytes one way; while frozen it holds them back.
func (p *proxy) copy(to, from net.Conn) {
	defer func() { _ = to.Close(); _ = from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if frozen {
			_, _ = io.Copy(io.Discard, from) // until somebody hangs up
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.cut {
			_ = c.Close()
			continue
		}
		p.connections[c] = true
	}
	return !p.cut
}

// cutOff refuses all connections, or lets them through again.
func (p *proxy) cutOff(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for c := range p.connections {
		_ = c.Close()
		delete(p.connections, c)
	}
}

// freeze swallows every byte both ways while connections stay open.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = true
}

func TestAnAPIServerThatIsAwayForShorterThanTheLeaseIsSurvived(t *testing.T) {
	w := newWorld(t)
	p := w.throughProxy()
	w.sampler.load.Store(8)
	d := w.decide("decider", func(o *Options) {
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 30*time.Second, 20*time.Second, time.Second
	})
	w.scale("s", workerv1.ModeActive)
	w.eventually("it is bound", func() bool { return w.condition("s", workerv1.ConditionBound) == "True/Bound" })

	p.cutOff(true)
	w.sampler.load.Store(28)
	w.eventually("passes fail", func() bool { return counter(t, d, "mds_decider_passes_total", "failed") > 0 })
	require.Equal(t, int32(1), w.count())
	p.cutOff(false)
	w.eventually("it grows", func() bool { return w.count() == 4 })
	w.eventually("and says so", func() bool {
		s := w.scaler("s").Status
		return s.LastCommit != nil && s.LastCommit.Vector["server"] == 4
	})
	require.NoError(t, d.end(t))
}

func TestALeaderWhoseAPIServerHangsStopsPlanningInTime(t *testing.T) {
	w := newWorld(t)
	p := w.throughProxy()
	w.sampler.load.Store(8)
	d := w.decide("decider", func(o *Options) { o.LeaseDuration, o.RenewDeadline = 6*time.Second, 4*time.Second })
	w.scale("s", workerv1.ModeActive)
	w.eventually("it is bound", func() bool { return w.condition("s", workerv1.ConditionBound) == "True/Bound" })

	p.freeze()
	frozen := time.Now()
	w.sampler.load.Store(28)
	select {
	case err := <-d.ended:
		d.ended <- err
		require.ErrorIs(t, err, kube.ErrLeaseLost)
	case <-time.After(enough):
		require.FailNow(t, "it went on")
	}
	require.Less(t, time.Since(frozen), 15*time.Second)
	require.Equal(t, int32(1), w.count())
}

func TestADeciderStartsBeforeItsAPIServer(t *testing.T) {
	w := newWorld(t)
	p := w.throughProxy()
	p.cutOff(true)
	w.sampler.load.Store(8)
	d := w.decide("decider")
	w.scale("s", workerv1.ModeActive)
	require.Never(t, func() bool { _, bound := w.binding(); return bound }, 2*time.Second, 100*time.Millisecond)
	p.cutOff(false)
	w.eventually("it is bound", func() bool { _, bound := w.binding(); return bound })
	require.NoError(t, d.end(t))
}

func TestADeciderEndsInTimeWhileItsAPIServerHangs(t *testing.T) {
	w := newWorld(t)
	p := w.throughProxy()
	w.sampler.load.Store(8)
	d := w.decide("decider", func(o *Options) {
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 15*time.Second, 10*time.Second, time.Second
	})
	w.scale("s", workerv1.ModeActive)
	w.eventually("it is bound", func() bool { return w.condition("s", workerv1.ConditionBound) == "True/Bound" })
	p.freeze()
	w.sampler.load.Store(28)
	require.NoError(t, d.end(t))
}
