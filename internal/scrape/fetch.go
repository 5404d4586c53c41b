package scrape

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"

	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

const (
	// accept prefers the format that every engine speaks. Compression is not asked for: it would cost the engine, which has
	// a model to serve, more than it saves on a cluster network.
	accept = "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5"
	// maxHeaderBytes of an answer.
	maxHeaderBytes = 64 << 10
	// trustedLength is how much is allocated because a header says so.
	trustedLength = 256 << 10
	// maxPooledBytes is the largest buffer kept for the next scrape.
	maxPooledBytes = 2 << 20
)

// Options say what a Scraper may do (D5, D61).
type Options struct {
	// MaxBytes of a body, after decompression; above 0.
	MaxBytes int64
	// DataParallel says which engines behind one endpoint are read.
	DataParallel DataParallel
	// Certificates are the authorities that verify engines which serve HTTPS, and what is presented to those that ask who calls.
	// Needed for engines that serve HTTPS.
	Certificates *certs.Source
	// InsecureSkipVerify accepts any certificate, and keeps the bearer token at home.
	InsecureSkipVerify bool
	// BearerTokenFile holds a token for engines with an API key, read at every scrape; empty: none.
	BearerTokenFile string
}

// Scraper reads expositions. It may be used by many goroutines at once and keeps nothing of a Pod but TLS sessions.
type Scraper struct {
	options   Options
	decoder   *Decoder
	transport *http.Transport
	sessions  tls.ClientSessionCache
	buffers   sync.Pool
}

// New makes a Scraper. Every scrape has its own connection: connections kept to thousands of Pods would cost more memory than
// making them anew costs time.
func New(options Options) *Scraper {
	s := &Scraper{options: options, decoder: NewDecoder(options.DataParallel), sessions: tls.NewLRUClientSessionCache(1024)}
	s.buffers.New = func() any { return new(bytes.Buffer) }
	s.transport = &http.Transport{
		DialContext:            s.dial,
		DialTLSContext:         s.dialTLS,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	return s
}

// Scrape fetches and decodes the exposition of one Pod before the deadline of ctx, which covers all of it: connection, headers
// and body. hint is as of Decode. Only a clean answer with status 200 counts; an error is an *Error.
func (s *Scraper) Scrape(ctx context.Context, pod observe.Pod, hint observe.Engine) (Result, error) {
	request, err := s.request(ctx, pod)
	if err != nil {
		return Result{}, err
	}
	response, err := s.transport.RoundTrip(request)
	if err != nil {
		return Result{}, classify(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return Result{}, failf(observe.HTTPStatus, "the engine answered with status %d, wanted 200", response.StatusCode)
	}
	buffer := s.borrow()
	defer s.giveBack(buffer)
	if err := s.read(ctx, buffer, response); err != nil {
		return Result{Bytes: buffer.Len()}, err
	}
	return s.decoder.Decode(buffer.Bytes(), response.Header.Get("Content-Type"), hint)
}

func (s *Scraper) request(ctx context.Context, pod observe.Pod) (*http.Request, error) {
	ip, err := netip.ParseAddr(pod.Address)
	if err != nil {
		return nil, failf(observe.Unreachable, "the Pod has no usable IP address (%.64q)", pod.Address)
	}
	if pod.Scheme != "http" && pod.Scheme != "https" {
		return nil, failf(observe.Unreachable, "scheme %.16q is neither http nor https", pod.Scheme)
	}
	u := &url.URL{Scheme: pod.Scheme, Host: net.JoinHostPort(ip.String(), strconv.Itoa(pod.Port))}
	u.Path, u.RawQuery, _ = strings.Cut(pod.Path, "?")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, failf(observe.Unreachable, "the scrape address is unusable: check the path %.64q", pod.Path)
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("Accept-Encoding", "identity")
	request.Header.Set("User-Agent", "model-deployment-scaler")
	return request, s.authorize(request)
}

// authorize adds the bearer token where it cannot be read by others: over HTTPS to an engine that proved who it is (D61).
func (s *Scraper) authorize(request *http.Request) error {
	if s.options.BearerTokenFile == "" || s.options.InsecureSkipVerify || request.URL.Scheme != "https" {
		return nil
	}
	token, err := os.ReadFile(s.options.BearerTokenFile)
	if err != nil {
		return failf(observe.Unreachable, "reading the engines' bearer token: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(token)))
	return nil
}

// read reads the whole body, decoded, up to the limit.
func (s *Scraper) read(ctx context.Context, into *bytes.Buffer, response *http.Response) error {
	var body io.Reader = response.Body
	switch encoding := response.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
		into.Grow(int(min(max(response.ContentLength, 0), trustedLength)) + bytes.MinRead)
	case "gzip":
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return broken(ctx, err)
		}
		body = unzipped
	default:
		return failf(observe.Malformed, "the body has the encoding %.16q, which was not asked for", encoding)
	}
	if _, err := into.ReadFrom(io.LimitReader(body, s.options.MaxBytes+1)); err != nil {
		return broken(ctx, err)
	}
	if int64(into.Len()) > s.options.MaxBytes {
		return failf(observe.TooLarge, "the body is over the limit of %d bytes: raise --max-scrape-bytes if that is right", s.options.MaxBytes)
	}
	return nil
}

func (s *Scraper) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil && !isTimeout(ctx, err) {
		return nil, failf(observe.Unreachable, "connecting: %w", err)
	}
	return conn, err
}

func (s *Scraper) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := s.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("splitting %s: %w", address, err)
	}
	conn := tls.Client(raw, s.tlsConfig(host))
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		if isTimeout(ctx, err) {
			return nil, err
		}
		return nil, failf(observe.Unreachable, "TLS handshake: %w", err)
	}
	return conn, nil
}

func (s *Scraper) tlsConfig(host string) *tls.Config {
	config := s.options.Certificates.Client(host)
	if s.options.InsecureSkipVerify {
		config.VerifyConnection = nil
	}
	config.MinVersion = tls.VersionTLS12 // engines are not ours to upgrade
	config.ClientSessionCache = s.sessions
	return config
}

func (s *Scraper) borrow() *bytes.Buffer {
	buffer, _ := s.buffers.Get().(*bytes.Buffer)
	buffer.Reset()
	return buffer
}

func (s *Scraper) giveBack(buffer *bytes.Buffer) {
	if buffer.Cap() <= maxPooledBytes {
		s.buffers.Put(buffer)
	}
}

// classify gives the reason of a request that got no answer. What the other side said instead is not repeated.
func classify(ctx context.Context, err error) error {
	var known *Error
	var network *net.OpError
	switch {
	case isTimeout(ctx, err):
		return failf(observe.Timeout, "no complete answer in time")
	case errors.As(err, &known):
		return known
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled):
		return failf(observe.Unreachable, "the connection broke before an answer came: %w", err)
	default:
		return failf(observe.Malformed, "the answer is not HTTP, or its headers are over %d bytes", maxHeaderBytes)
	}
}

// broken gives the reason of a body that did not end as announced.
func broken(ctx context.Context, err error) error {
	if isTimeout(ctx, err) {
		return failf(observe.Timeout, "the body did not end in time")
	}
	return failf(observe.Malformed, "the body was cut short or its encoding is broken")
}

func isTimeout(ctx context.Context, err error) bool {
	var timeout net.Error
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout())
}
