package decider

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// history stands between a decider and its API server and can make watches come too late: they are cut, held until they are let
// go, and then those of custom resources ask for where the API server's memory does not reach. It answers that itself, with 410.
type history struct {
	server *httptest.Server
	next   http.Handler

	mu      sync.Mutex
	held    chan struct{}  // nil: watches pass
	cut     map[int]func() // ends a watch, and waits until it tells nothing more
	watches int
	expired map[string]bool // kinds whose watch was answered 410
}

// throughHistory lets deciders of this world see through one.
func (w *world) throughHistory() *history {
	w.t.Helper()
	config := w.cluster.Config(w.t)
	to, err := url.Parse(config.Host)
	require.NoError(w.t, err)
	transport, err := rest.TransportFor(config)
	require.NoError(w.t, err)
	h := &history{cut: make(map[int]func()), expired: make(map[string]bool)}
	silent := log.New(io.Discard, "", 0) // broken connections are the purpose
	h.next = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport, FlushInterval: -1, ErrorLog: silent,
		ModifyResponse: func(r *http.Response) error { r.Body = &listened{r.Body, h, path.Base(r.Request.URL.Path)}; return nil },
	}
	h.server = httptest.NewUnstartedServer(h)
	h.server.Config.ErrorLog = silent
	h.server.StartTLS()
	w.t.Cleanup(func() { h.expire(); h.release(); h.server.Close() })
	access := clientcmdapi.NewConfig()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw})
	access.Clusters["c"] = &clientcmdapi.Cluster{Server: h.server.URL, CertificateAuthorityData: authority}
	access.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	access.CurrentContext = "c"
	w.kubeconfig = filepath.Join(w.t.TempDir(), "kubeconfig")
	require.NoError(w.t, clientcmd.WriteToFile(*access, w.kubeconfig))
	return h
}

func (h *history) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("watch") == "" {
		h.next.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	told := make(chan struct{})
	h.mu.Lock()
	h.watches++
	id, held := h.watches, h.held
	h.cut[id] = func() { cancel(); <-told }
	h.mu.Unlock()
	defer func() {
		close(told)
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.cut, id)
	}()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return
		}
		if query.Get("sendInitialEvents") == "" && strings.Contains(r.URL.Path, workerv1.GroupName) {
			query.Set("resourceVersion", "1") // long before the first custom resource
			r.URL.RawQuery = query.Encode()
		}
	}
	h.next.ServeHTTP(w, r.WithContext(ctx))
}

// expire cuts all watches, and holds those that come. When it returns, nothing that happens later is told any more.
func (h *history) expire() {
	h.mu.Lock()
	h.held = make(chan struct{})
	cut := slices.Collect(maps.Values(h.cut))
	h.mu.Unlock()
	for _, end := range cut {
		end()
	}
}

// release lets the held watches go.
func (h *history) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.held)
	h.held = nil
}

// relisted says whether the watches of all these kinds were answered 410.
func (h *history) relisted(kinds ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, kind := range kinds {
		if !h.expired[kind] {
			return false
		}
	}
	return true
}

// listened is an answer in which a 410 is noted.
type listened struct {
	io.ReadCloser
	history *history
	kind    string
}

func (l *listened) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if bytes.Contains(p[:n], []byte(metav1.StatusReasonExpired)) {
		l.history.mu.Lock()
		l.history.expired[l.kind] = true
		l.history.mu.Unlock()
	}
	return n, err
}

func TestWhatIsMissedBeforeARelistIsLearntAndNothingIsPlannedTwice(t *testing.T) {
	w := newWorld(t)
	h := w.throughHistory()
	l := w.lead()
	w.sampler.load.Store(8)
	w.scale("s", workerv1.ModeActive)
	gone := []string{"gone-0", "gone-1", "gone-2", "again"}
	for _, name := range gone {
		w.make(name)
	}
	w.eventually("all are planned", func() bool {
		return w.condition("s", workerv1.ConditionActive) == "True/Active" && w.planned(l, gone...)
	})

	h.expire()
	w.sampler.load.Store(28)
	for _, name := range gone { // without a finalizer: they are gone at once
		require.NoError(t, w.client.Scalers(w.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
		require.NoError(t, w.client.Targets(w.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	w.make("again")
	w.eventually("it grows by what it reads itself", func() bool { return w.count() == 4 })
	require.True(t, w.remembered(l, "gone-0"), "nobody told of the deletion")
	h.release()
	w.eventually("the API server has answered 410", func() bool { return h.relisted(workerv1.Resource, target.Resource) })
	w.eventually("what went is forgotten, and what came under its name is planned", func() bool {
		return w.planned(l, "again") && !w.remembered(l, "gone-0") && !w.remembered(l, "gone-1") && !w.remembered(l, "gone-2")
	})
	id, passes := w.decision(), l.passed(t)
	w.eventually("both scalers are planned once more", func() bool { return l.passed(t) >= passes+3 })
	require.Equal(t, id, w.decision())
	require.Equal(t, fence.DecisionID{Epoch: id.Epoch, Sequence: 1, Kind: fence.CommitUp}, id, "one growth, written once")
	require.Equal(t, int32(4), w.count())

	w.removeScalers()
	require.NoError(t, w.client.Targets(w.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	w.eventually("all is forgotten", l.keepsNothing)
	w.eventually("the sampler has nothing to do", func() bool { return len(w.sampler.assigned()) == 0 })
	l.requireNothingLeft(t)
}

// make a target and a scaler in Shadow, both of one name.
func (w *world) make(name string) {
	w.t.Helper()
	require.NoError(w.t, w.makeTarget(w.t.Context(), name))
	_, err := w.client.Scalers(w.namespace).Create(w.t.Context(), scalerOf(name, w.namespace, name, workerv1.ModeShadow), metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func (w *world) named(scaler string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.namespace, Name: scaler}
}

// planned says whether the leader has planned the very scalers that there are, and said so.
func (w *world) planned(l *leading, names ...string) bool {
	w.t.Helper()
	for _, name := range names {
		s := w.scaler(name)
		if !l.memories.has(w.named(name), s.UID) || s.Status.ObservedGeneration != s.Generation {
			return false
		}
	}
	return true
}

func (w *world) remembered(l *leading, name string) bool {
	l.memories.mu.Lock()
	defer l.memories.mu.Unlock()
	_, found := l.memories.byName[w.named(name)]
	return found
}

// passed is how many passes were made.
func (l *leading) passed(t *testing.T) (passes float64) {
	t.Helper()
	families, err := l.decider.process.Registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "mds_decider_passes_total" {
				passes += m.GetCounter().GetValue()
			}
		}
	}
	return passes
}
