package scrape

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// cutAnswer is all that comes before the connection closes, whatever the head announces.
type cutAnswer struct{ head, body []byte }

// piped makes a Scraper whose connections end in answers, without a network: one answer for each connection.
func piped(answers <-chan cutAnswer) *Scraper {
	s := New(Options{MaxBytes: 8 << 20, DataParallel: Sum})
	s.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			request, err := http.ReadRequest(bufio.NewReader(server))
			if err != nil {
				return
			}
			_ = request.Body.Close()
			answer := <-answers
			_, _ = server.Write(append(answer.head, answer.body...))
		}()
		return client, nil
	}
	return s
}

func heads(contentType string, body []byte) map[string][]byte {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: %s\r\n"
	return map[string][]byte{
		"shorter than announced":     fmt.Appendf(nil, head+"Content-Length: %d\r\n\r\n", contentType, len(body)),
		"chunked without an end":     fmt.Appendf(nil, head+"Transfer-Encoding: chunked\r\n\r\n%x\r\n", contentType, len(body)),
		"whole chunk but not a last": fmt.Appendf(nil, head+"Transfer-Encoding: chunked\r\n\r\n", contentType),
	}
}

// Half a scrape is never read, wherever it was cut: at every byte of one exposition and at some of the others.
func TestABodyThatIsCutAnywhereFailsTheScrape(t *testing.T) {
	for _, path := range ours(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			body, contentType := read(t, path)
			for how, head := range heads(contentType, body) {
				step := len(body)/40 + 1
				if filepath.Base(path) == "sglang-0.4.7.prom" && how == "shorter than announced" {
					step = 1
				}
				answers := make(chan cutAnswer, 1)
				s := piped(answers)
				for cut := 0; cut < len(body); cut += step {
					answer := cutAnswer{append([]byte(nil), head...), body[:cut]}
					if how == "whole chunk but not a last" && cut > 0 {
						answer.body = fmt.Appendf(nil, "%x\r\n%s\r\n", cut, body[:cut])
					}
					answers <- answer
					result, err := s.Scrape(t.Context(), observe.Pod{Address: "127.0.0.1", Port: 1, Scheme: "http", Path: "/metrics"}, "")
					require.Equal(t, observe.Malformed, ReasonOf(err), "%s at byte %d: %v", how, cut, err)
					require.Equal(t, observe.Sample{}, result.Sample)
				}
			}
		})
	}
}
