package cli

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/scrape"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// Limits of a scrape, as the sampler has them by default (D5).
const (
	maxBytes      = 8 << 20
	scrapeTimeout = 3 * time.Second
)

// reader reads scrapes from where they are. With a URL among them they are really an interval apart, with files in name only.
type reader struct {
	options *inspectOptions
	decoder *scrape.Decoder
	scraper *scrape.Scraper
	start   time.Time
	live    bool
}

func newReader(o *inspectOptions, pods []inspected) (*reader, error) {
	system, err := certs.Load(certs.Files{}, zap.NewNop())
	if err != nil {
		return nil, err
	}
	mode := scrape.DataParallel(o.dataParallel)
	r := &reader{
		options: o, decoder: scrape.NewDecoder(mode), start: time.Now(),
		scraper: scrape.New(scrape.Options{MaxBytes: maxBytes, DataParallel: mode, Certificates: system}),
	}
	for _, p := range pods {
		for _, s := range p.sources {
			r.live = r.live || isURL(s)
		}
	}
	return r, nil
}

// reading is one scrape of one Pod.
type reading struct {
	source string
	result windows.PodResult
	series int
	bytes  int
	cut    bool // a file that ends in the middle of a line
}

// wait returns the time of a step when it has come.
func (r *reader) wait(ctx context.Context, step int) (time.Time, error) {
	at := r.start.Add(time.Duration(step) * r.options.interval)
	if !r.live || step == 0 {
		return at, nil
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return at, fmt.Errorf("waiting for the next scrape: %w", ctx.Err())
	case <-timer.C:
		return time.Now(), nil
	}
}

func (r *reader) readAll(ctx context.Context, pods []inspected, step int, now time.Time) ([]reading, error) {
	var out []reading
	for _, p := range pods {
		one, err := r.read(ctx, p.sources[step], now)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// read reads one scrape. Only a file that cannot be opened is an error: what is wrong with a scrape is what people want to see.
func (r *reader) read(ctx context.Context, source string, now time.Time) (reading, error) {
	one := reading{source: source, result: windows.PodResult{At: now}}
	switch {
	case source == "-":
		one.result.Reason, one.result.Message = observe.Unreachable, "the scrape failed, as - says"
		return one, nil
	case isURL(source):
		answer, err := r.fetch(ctx, source)
		one.result.At = time.Now()
		one.take(answer, err)
		return one, nil
	}
	body, err := os.ReadFile(source)
	if err != nil {
		return one, fmt.Errorf("reading a scrape: %w", err)
	}
	if len(body) > maxBytes {
		one.bytes, one.result.Reason = len(body), observe.TooLarge
		one.result.Message = fmt.Sprintf("the file is over %d bytes: the sampler reads that much only with a larger --max-scrape-bytes", maxBytes)
		return one, nil
	}
	answer, err := r.decoder.Decode(body, r.contentType(body), r.options.hint())
	one.take(answer, err)
	one.cut = len(body) > 0 && body[len(body)-1] != '\n' && !endsMarked(body)
	return one, nil
}

func (one *reading) take(answer scrape.Result, err error) {
	one.series, one.bytes, one.result.Sample = answer.Series, answer.Bytes, answer.Sample
	if err != nil {
		one.result.Reason, one.result.Message = scrape.ReasonOf(err), err.Error()
	}
}

// contentType of a file: OpenMetrics is known by its end.
func (r *reader) contentType(body []byte) string {
	if r.options.contentType == "" && endsMarked(body) {
		return "application/openmetrics-text"
	}
	return r.options.contentType
}

func endsMarked(body []byte) bool { return bytes.HasSuffix(bytes.TrimSpace(body), []byte("# EOF")) }

// fetch scrapes a URL as the sampler scrapes a Pod: by address.
func (r *reader) fetch(ctx context.Context, source string) (scrape.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, min(scrapeTimeout, r.options.interval/2))
	defer cancel()
	u, err := url.Parse(source)
	if err != nil {
		return scrape.Result{}, fmt.Errorf("reading the URL: %w", err)
	}
	port, err := portOf(u)
	if err != nil {
		return scrape.Result{}, err
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return scrape.Result{}, fmt.Errorf("looking the host up: %w", err)
	}
	pod := observe.Pod{Address: addresses[0].Unmap().String(), Port: port, Scheme: u.Scheme, Path: u.RequestURI()}
	return r.scraper.Scrape(ctx, pod, r.options.hint())
}

func portOf(u *url.URL) (int, error) {
	switch {
	case u.Port() == "" && u.Scheme == "http":
		return 80, nil
	case u.Port() == "":
		return 443, nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return 0, fmt.Errorf("reading the port of the URL: %w", err)
	}
	return int(port), nil
}

func isURL(source string) bool {
	return strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://")
}
