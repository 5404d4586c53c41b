package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webhook is the process under test.
type webhook struct {
	url, admin string
	client     *http.Client
}

// connections are what an API server keeps to one webhook. More are not made: what waits for one waits on the record.
const connections = 25

// newWebhook calls as API servers do: HTTP/1.1 over connections that are kept.
func newWebhook(https, admin string, pool *x509.CertPool) *webhook {
	_, port, _ := net.SplitHostPort(https)
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}},
		MaxIdleConnsPerHost: connections,
		MaxConnsPerHost:     connections,
	}
	return &webhook{url: "https://localhost:" + port, admin: "http://" + admin, client: &http.Client{Transport: transport, Timeout: 5 * time.Second}}
}

// answer to one request.
type answer struct {
	took time.Duration // from when the request was due, so that a late start counts
	err  error
}

// compare asks the API server itself for the Lease, ten times a second, until ctx ends: what of an answer with a live read is
// not the webhook's.
func (w *world) compare(ctx context.Context) (answers []answer) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return answers
		case <-tick.C:
		}
		began := time.Now()
		_, err := w.leases.Get(context.WithoutCancel(ctx), "decider", metav1.GetOptions{})
		answers = append(answers, answer{time.Since(began), err})
	}
}

// send asks at a steady rate, each case in turn, whatever the answers take. It returns the answers by case.
func (h *webhook) send(ctx context.Context, cases []one, rate int, d time.Duration) ([][]answer, error) {
	answers := make([][]answer, len(cases))
	var mu sync.Mutex
	var pending sync.WaitGroup
	began := time.Now()
	for i := range int(d.Seconds() * float64(rate)) {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		select {
		case <-ctx.Done():
			pending.Wait()
			return nil, fmt.Errorf("measuring: %w", context.Cause(ctx))
		case <-time.After(time.Until(due)):
		}
		pending.Go(func() {
			c := i % len(cases)
			err := h.ask(ctx, cases[c])
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			answers[c] = append(answers[c], answer{took, err})
		})
	}
	pending.Wait()
	return answers, nil
}

func (h *webhook) ask(ctx context.Context, c one) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+c.path+"?timeout=5s", bytes.NewReader(c.body))
	if err != nil {
		return fmt.Errorf("asking about %s: %w", c.name, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := h.client.Do(request)
	if err != nil {
		return fmt.Errorf("asking about %s: %w", c.name, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("asking about %s: %w", c.name, err)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Response == nil {
		return fmt.Errorf("asking about %s: answered %s: %s", c.name, response.Status, body)
	}
	if review.Response.Allowed != c.allowed {
		return fmt.Errorf("asking about %s: allowed is %t: %v", c.name, review.Response.Allowed, review.Response.Result)
	}
	return nil
}

func (h *webhook) get(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.admin+path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking the webhook for %s: %w", path, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the webhook for %s: %w", path, err)
	}
	return response, nil
}

// cpu is what the webhook has taken so far, in seconds.
func (h *webhook) cpu(ctx context.Context) (float64, error) {
	response, err := h.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(response.Body)
	if err != nil {
		return 0, fmt.Errorf("reading the webhook's metrics: %w", err)
	}
	for _, m := range families["process_cpu_seconds_total"].GetMetric() {
		return m.GetCounter().GetValue(), nil
	}
	return 0, fmt.Errorf("reading the webhook's metrics: there is no process_cpu_seconds_total")
}
