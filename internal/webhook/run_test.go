package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gpustack.ai/model-deployment-scaler/internal/admission"
	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/certs/certstest"
	"gpustack.ai/model-deployment-scaler/internal/process"
)

const (
	boundTo2 = `{"kind": "ModelDeployment", "metadata": {"annotations": {"modeldeployment.gpustack.ai/scaler-binding":
		"{\"scalerName\":\"s1\",\"scalerUID\":\"u1\",\"term\":1}"}}, "spec": {"roles": [{"name": "server", "replicas": 2}]}}`
	unboundAt2 = `{"kind": "ModelDeployment", "spec": {"roles": [{"name": "server", "replicas": 2}]}}`
	unboundAt3 = `{"kind": "ModelDeployment", "spec": {"roles": [{"name": "server", "replicas": 3}]}}`
)

// nowhere is the kubeconfig of a cluster that refuses connections.
func nowhere(t *testing.T) string {
	t.Helper()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "http://" + closed.Addr().String()}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "c"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, path))
	return path
}

func TestReviewsAreAnsweredWhileTheClusterIsNotReachable(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := start(t, nowhere(t))
	client := s.client(t)

	require.True(t, review(t, client, s.url+admission.FencePath, "ModelDeployment", unboundAt3, unboundAt2).Allowed)
	refused := review(t, client, s.url+admission.FencePath, "ModelDeployment", unboundAt2, boundTo2)
	require.False(t, refused.Allowed, "an orphan is not taken for granted")
	require.Equal(t, int32(http.StatusServiceUnavailable), refused.Result.Code)
	require.Contains(t, refused.Result.Message, "connection refused")

	client.CloseIdleConnections()
	require.NoError(t, s.stop())
	_, err := client.Get(s.url)
	require.Error(t, err, "it has stopped serving")
}

func TestOldTLSIsRefused(t *testing.T) {
	s := start(t, nowhere(t))
	_, err := tls.Dial("tcp", s.url[len("https://"):], &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true})
	require.ErrorContains(t, err, "protocol version")
	require.NoError(t, s.stop())
}

func TestWhatPreventsAStartIsNamed(t *testing.T) {
	authority, err := certstest.NewAuthority("test")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, authority.WriteLeaf(dir, "localhost"))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	good := Options{Kubeconfig: nowhere(t), HTTPSAddress: "127.0.0.1:0",
		TLS: certs.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}}
	for name, test := range map[string]struct {
		broken  func(*Options)
		problem string
	}{
		"no certificate":         {func(o *Options) { o.TLS.Cert = filepath.Join(dir, "none") }, filepath.Join(dir, "none")},
		"a kubeconfig not there": {func(o *Options) { o.Kubeconfig = filepath.Join(dir, "none") }, "finding the cluster"},
		"a port that is taken":   {func(o *Options) { o.HTTPSAddress = taken.Addr().String() }, "listening on --https-address"},
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			test.broken(&o)
			p := &process.Process{Log: zap.NewNop(), Registry: prometheus.NewRegistry(), Health: &process.Health{}}
			require.ErrorContains(t, Run(t.Context(), p, &o), test.problem)
		})
	}
}

// The client is as API servers are: HTTP/1.1, connections that are kept, and a POST that fails is not repeated. It comes until
// it has heard that this copy is not ready any more.
func TestACopyThatEndsSendsItsClientsAwayBeforeItCloses(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := start(t, nowhere(t), func(o *Options) { o.linger = 3 * time.Second })
	client := s.client(t)
	client.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	client.Transport.(*http.Transport).TLSClientConfig.NextProtos = []string{"http/1.1"}
	sentAway := func() bool {
		answer, err := client.Post(s.url+admission.FencePath, "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, answer.Body)
		require.NoError(t, answer.Body.Close())
		return answer.Close
	}
	for range 3 {
		require.False(t, sentAway())
	}
	ended := make(chan error, 1)
	told := time.Now()
	go func() { ended <- s.stop() }()
	away := 0
	for time.Since(told) < time.Second/2 {
		if sentAway() {
			away++
		}
	}
	require.Positive(t, away)
	require.NoError(t, <-ended)
	_, err := client.Get(s.url)
	require.ErrorContains(t, err, "connection refused")
}

func TestRequestsInFlightAreFinished(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	authority, err := certstest.NewAuthority("test")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, authority.WriteLeaf(dir, "localhost"))
	source, err := certs.Load(certs.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}, zap.NewNop())
	require.NoError(t, err)
	arrived, proceed := make(chan struct{}), make(chan struct{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	slow := &service{health: &process.Health{}, listener: listener, server: newServer(zap.NewNop(), source,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(arrived)
			<-proceed
			w.WriteHeader(http.StatusNoContent)
		}))}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- slow.run(ctx, source.Run) }()

	s := server{url: "https://localhost" + listener.Addr().String()[len("127.0.0.1"):], ca: authority.PEM}
	client := s.client(t)
	answered := make(chan error, 1)
	go func() {
		answer, err := client.Get(s.url)
		if err == nil && answer.StatusCode != http.StatusNoContent {
			err = errors.New(answer.Status)
		}
		answered <- err
	}()
	<-arrived
	cancel()
	require.Eventually(t, func() bool {
		connection, err := net.DialTimeout("tcp", listener.Addr().String(), time.Second)
		if err == nil {
			_ = connection.Close()
		}
		return err != nil
	}, patience, tick, "no new connections are taken")
	close(proceed)
	require.NoError(t, <-answered)
	require.NoError(t, <-served)
	client.CloseIdleConnections()
}
