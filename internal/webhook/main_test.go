package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gpustack.ai/model-deployment-scaler/dev/testcluster"
	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/certs/certstest"
	"gpustack.ai/model-deployment-scaler/internal/process"
)

func TestMain(m *testing.M) { os.Exit(testcluster.Run(m)) }

const (
	patience = 60 * time.Second
	tick     = 20 * time.Millisecond

	deciderUser = "system:serviceaccount:model-deployment-scaler:decider"
)

// server is a webhook that runs in this process.
type server struct {
	url string // https://localhost:port
	ca  []byte

	process *process.Process
	logs    *observer.ObservedLogs
	stop    func() error
}

// start runs the webhook against the cluster of a kubeconfig on a port of its own, with certificates from files.
func start(t *testing.T, kubeconfig string, edits ...func(*Options)) server {
	t.Helper()
	authority, err := certstest.NewAuthority("test")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, authority.WriteLeaf(dir, "localhost"))
	o := &Options{Kubeconfig: kubeconfig, TLS: certs.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}}
	for _, edit := range edits {
		edit(o)
	}
	s := launch(t, o)
	s.ca = authority.PEM
	return s
}

// launch runs the webhook with options that it completes.
func launch(t *testing.T, o *Options) server {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	o.HTTPSAddress, o.DeciderUsername, o.LeaseNamespace, o.LeaseName = "127.0.0.1:0", deciderUser, "default", "decider"
	require.NoError(t, o.Validate())
	p := &process.Process{Log: zap.New(core), Registry: prometheus.NewRegistry(), Health: &process.Health{}, Version: "test"}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, p, o) }()
	stop := sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(cancel)

	var address string
	require.Eventually(t, func() bool {
		for _, entry := range logs.FilterMessage("serving admission reviews").All() {
			address = entry.ContextMap()["address"].(string)
		}
		return address != "" || len(done) > 0
	}, patience, tick)
	require.NotEmpty(t, address, "the webhook ended at once")
	return server{url: "https://localhost" + address[len("127.0.0.1"):], process: p, logs: logs, stop: stop}
}

// client trusts the server's authority.
func (s server) client(t *testing.T) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(s.ca))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// review posts a request for an object of a kind of our group.
func review(t *testing.T, client *http.Client, url, kind, object, old string) *admissionv1.AdmissionResponse {
	t.Helper()
	request := &admissionv1.AdmissionRequest{UID: "u", Operation: admissionv1.Update, Namespace: "ns", Name: "m1"}
	request.Kind.Group, request.Kind.Version, request.Kind.Kind = "worker.gpustack.ai", "v1", kind
	request.Object, request.OldObject = runtime.RawExtension{Raw: []byte(object)}, runtime.RawExtension{Raw: []byte(old)}
	body := admissionv1.AdmissionReview{Request: request}
	body.APIVersion, body.Kind = "admission.k8s.io/v1", "AdmissionReview"
	sent, err := json.Marshal(body)
	require.NoError(t, err)
	answer, err := client.Post(url+"?timeout=5s", "application/json", bytes.NewReader(sent))
	require.NoError(t, err)
	defer answer.Body.Close()
	received, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, string(received))
	var got admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(received, &got))
	return got.Response
}
