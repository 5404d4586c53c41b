package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gpustack.ai/model-deployment-scaler/internal/certs/certstest"
)

// frontName is whom the certificate of a front is for.
const frontName = "chaos.local"

// intercept deals with a request of a decider; next is the API server.
type intercept func(w http.ResponseWriter, r *http.Request, next http.Handler)

// front stands between one decider and the API server.
type front struct {
	// Cluster is what the decider's kubeconfig says.
	Cluster *clientcmdapi.Cluster

	next      http.Handler
	intercept atomic.Pointer[intercept] // nil: everything passes
	watches   gate                      // what watches tell
}

// newFront serves until ctx ends.
func newFront(ctx context.Context, config *rest.Config) (*front, error) {
	authority, err := certstest.NewAuthority("chaos")
	if err != nil {
		return nil, err
	}
	pem, key, err := authority.Leaf(frontName)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pem, key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of a front: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for a decider: %w", err)
	}
	f := &front{Cluster: &clientcmdapi.Cluster{
		Server: "https://" + listener.Addr().String(), TLSServerName: frontName, CertificateAuthorityData: authority.PEM,
	}}
	if f.next, err = f.upstream(config); err != nil {
		return nil, err
	}
	silent := log.New(io.Discard, "", 0) // broken connections are the purpose
	server := &http.Server{
		Handler: f, ErrorLog: silent, ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
	}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // which ends Serve
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return f, nil
}

// upstream forwards to the API server with the credentials that the decider sent.
func (f *front) upstream(config *rest.Config) (http.Handler, error) {
	to, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's address: %w", err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, fmt.Errorf("connecting a front to the API server: %w", err)
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Get("watch") != "" {
				r.Body = gated{r.Body, &f.watches, r.Request.Context().Done()}
			}
			return nil
		},
	}, nil
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i := f.intercept.Load(); i != nil {
		(*i)(w, r, f.next)
		return
	}
	f.next.ServeHTTP(w, r)
}

func (f *front) set(i intercept) { f.intercept.Store(&i) }
func (f *front) clear()          { f.intercept.Store(nil) }

// gated is a body that waits at a gate with whatever it has read.
type gated struct {
	io.ReadCloser
	gate *gate
	done <-chan struct{}
}

func (g gated) Read(p []byte) (int, error) {
	n, err := g.ReadCloser.Read(p)
	g.gate.wait(g.done)
	return n, err
}

// commits says whether a request writes to a target.
func commits(r *http.Request) bool {
	return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/modeldeployments/")
}
