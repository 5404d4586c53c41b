package scrape

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// The three largest and three typical expositions.
var benchmarked = []string{
	"sglang-0.5.15-decode-dpattn16", "sglang-0.5.15-dpattn8", "sglang-0.5.15-tp8-allschedulers",
	"sglang-0.5.15-tp8", "vllm-v1-0.30", "vllm-v1-0.10.2",
}

func BenchmarkDecode(b *testing.B) {
	for _, name := range benchmarked {
		b.Run(name, func(b *testing.B) {
			body, contentType := exposition(b, name)
			d := NewDecoder(Sum)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				_, err := d.Decode(body, contentType, "")
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkRatios measures decoding against the two things it is judged by, turn by turn in one run, so that a busy machine
// spoils the times and not the ratios: what the usual parser takes for the whole exposition, which is to be 20 times as much at
// least, and a bare pass over its lines, of which decoding is to take 3 times as much at most.
func BenchmarkRatios(b *testing.B) {
	for _, name := range benchmarked {
		b.Run(name, func(b *testing.B) {
			body, contentType := exposition(b, name)
			d := NewDecoder(Sum)
			decoding := func() {
				_, err := d.Decode(body, contentType, "")
				require.NoError(b, err)
			}
			expfmtTime, decodeTime, bareTime := math.Inf(1), math.Inf(1), math.Inf(1)
			for b.Loop() {
				expfmtTime = min(expfmtTime, fastest(2, func() { parseAll(b, body) }))
				decodeTime = min(decodeTime, fastest(20, decoding))
				bareTime = min(bareTime, fastest(20, func() { require.Positive(b, barePass(body)) }))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(decodeTime/1e3, "decode-µs")
			b.ReportMetric(expfmtTime/decodeTime, "expfmt/decode")
			b.ReportMetric(decodeTime/bareTime, "decode/bare")
			require.GreaterOrEqual(b, expfmtTime/decodeTime, 20.0, "decoding is to cost a twentieth of expfmt at most")
			require.LessOrEqual(b, decodeTime/bareTime, 3.0, "decoding is to cost three bare passes at most")
		})
	}
}

// fastest is the shortest of n runs, in nanoseconds.
func fastest(n int, run func()) float64 {
	best := math.Inf(1)
	for range n {
		start := time.Now()
		run()
		best = min(best, float64(time.Since(start)))
	}
	return best
}

func parseAll(t testing.TB, body []byte) {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	_, err := p.TextToMetricFamilies(bytes.NewReader(body))
	require.NoError(t, err)
}

// barePass finds line ends and compares prefixes, and nothing else.
func barePass(body []byte) (found int) {
	for len(body) > 0 {
		end := bytes.IndexByte(body, '\n')
		if end < 0 {
			end = len(body) - 1
		}
		text := body[:end]
		body = body[end+1:]
		if bytes.HasPrefix(text, []byte(vllmPrefix)) || bytes.HasPrefix(text, []byte(sglangPrefix)) {
			found++
		}
	}
	return found
}

func TestSteadyDecodingAllocatesPerScrapeAndNotPerSeries(t *testing.T) {
	for _, name := range benchmarked {
		t.Run(name, func(t *testing.T) {
			body, contentType := exposition(t, name)
			d := NewDecoder(Sum)
			result, err := d.Decode(body, contentType, "")
			require.NoError(t, err)
			allocations := testing.AllocsPerRun(50, func() { _, _ = d.Decode(body, contentType, "") })
			require.Greater(t, result.Series, 50)
			require.LessOrEqual(t, allocations, 20.0)
		})
	}
}
