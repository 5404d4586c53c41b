package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"time"
)

// listeners is over how many addresses the Pods are spread, so that connections of the last minute do not use up the ports.
const listeners = 32

// growing is the counter that moves: 1000 tokens a second in every Pod.
var growing = regexp.MustCompile(`(?m)^(?:sglang:realtime_tokens_total\{.*mode="decode".*\}|vllm:generation_tokens_total\{.*\}) (\S+)$`)

var modelName = regexp.MustCompile(`model_name="([^"]*)"`)

// rolePage is the exposition of the Pods of one role, parted at the counter that moves.
type rolePage struct{ head, tail []byte }

// serveEngines is the engines' process: it tells its addresses on standard output, the silent one last, and
// serves until ctx ends.
func serveEngines(ctx context.Context, o options) error {
	pages, err := makePages(o)
	if err != nil {
		return err
	}
	started := time.Now()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		role, err := strconv.Atoi(r.URL.Query().Get("role"))
		if err != nil || role < 0 || role >= len(pages) {
			http.NotFound(w, r)
			return
		}
		p := pages[role]
		value := fmt.Appendf(nil, "%012.1f", 1000*time.Since(started).Seconds())
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(p.head)+len(value)+len(p.tail)))
		for _, part := range [][]byte{p.head, value, p.tail} {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	server := &http.Server{Handler: handler}
	var addresses []string
	ended := make(chan error, listeners)
	for i := range listeners {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.%d:0", i+2))
		if err != nil {
			return fmt.Errorf("listening as an engine: %w", err)
		}
		addresses = append(addresses, listener.Addr().String())
		go func() { ended <- server.Serve(listener) }()
	}
	silent, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0") // the kernel accepts, and nobody answers
	if err != nil {
		return fmt.Errorf("listening as a silent engine: %w", err)
	}
	defer func() { _ = silent.Close() }()
	addresses = append(addresses, silent.Addr().String())
	if err := json.NewEncoder(os.Stdout).Encode(addresses); err != nil {
		return fmt.Errorf("telling the addresses: %w", err)
	}
	<-ctx.Done()
	err = server.Close()
	for range listeners {
		if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// makePages gives every role a model name of its own, as a fleet has.
func makePages(o options) ([]rolePage, error) {
	body, err := os.ReadFile(o.page)
	if err != nil {
		return nil, fmt.Errorf("reading the page of the engines: %w", err)
	}
	model := modelName.FindSubmatch(body)
	if model == nil {
		return nil, fmt.Errorf("reading %s: no model name in it", o.page)
	}
	pages := make([]rolePage, roles(o))
	for i := range pages {
		page := bytes.ReplaceAll(body, model[1], fmt.Appendf(nil, "%s-%04d", model[1][:max(0, len(model[1])-5)], i))
		at := growing.FindSubmatchIndex(page)
		if at == nil {
			return nil, fmt.Errorf("reading %s: no token counter in it", o.page)
		}
		pages[i] = rolePage{page[:at[2]], page[at[3]:]}
	}
	return pages, nil
}

// isSilent says which Pods never answer.
func (o options) isSilent(pod int) bool { return pod*o.silent/o.pods != (pod+1)*o.silent/o.pods }

func roles(o options) int { return (o.pods + o.perRole - 1) / o.perRole }
