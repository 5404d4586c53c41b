package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	probeInterval = 50 * time.Millisecond
	probeTimeout  = 5 * time.Second
	// startTimeout bounds the start of one component. On a free machine it
	// takes three seconds; a busy one may be compiling next to it.
	startTimeout = 5 * time.Minute
)

// probe asks the components whether they are ready, as the administrator:
// nothing is answered anonymously.
type probe struct {
	Block
	client *http.Client
}

func newProbe(b Block, p pki) (*probe, error) {
	authority, err := os.ReadFile(p.cert(authorityName))
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(p.cert(adminName), p.key(adminName))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	return &probe{Block: b, client: &http.Client{Transport: transport, Timeout: probeTimeout}}, nil
}

func (p *probe) etcd(ctx context.Context) error {
	return p.get(ctx, p.url(etcdClientPort)+"/health")
}

func (p *probe) apiServer(ctx context.Context) error {
	return p.get(ctx, p.url(apiServerPort)+"/readyz")
}

// controllerManager asks for the traces of its controllers too: a Pod can be
// created from the moment its namespace has a service account.
func (p *probe) controllerManager(ctx context.Context) error {
	for _, url := range []string{
		p.url(controllerManagerPort) + "/healthz",
		p.url(apiServerPort) + "/api/v1/namespaces/default/serviceaccounts/default",
		p.url(apiServerPort) + "/api/v1/namespaces/default/configmaps/kube-root-ca.crt",
	} {
		if err := p.get(ctx, url); err != nil {
			return err
		}
	}
	return nil
}

func (p *probe) get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s: %s: %s", url, response.Status, body)
	}
	return nil
}

// await polls until the check passes. It fails when the process ends, the
// start takes too long or the context ends.
func await(ctx context.Context, p *process, name string, check func(context.Context) error) error {
	timeout, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	var last error
	for {
		select {
		case <-p.done:
			return p.ended()
		case <-timeout.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &componentError{name: name, log: p.log, cause: fmt.Sprintf("it was not ready after %s: %v", startTimeout, last)}
		case <-ticker.C:
			if last = check(timeout); last == nil {
				return nil
			}
		}
	}
}
