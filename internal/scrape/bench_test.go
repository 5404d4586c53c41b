package scrape

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkDecode is to be read against BenchmarkBareFilter: decoding should cost a small multiple of finding the lines.
func BenchmarkDecode(b *testing.B) {
	forEachTypical(b, func(b *testing.B, body []byte, contentType string) {
		for b.Loop() {
			_, err := Decode(body, contentType, Sum)
			require.NoError(b, err)
		}
	})
}

// BenchmarkBareFilter finds line ends and compares prefixes, and nothing else.
func BenchmarkBareFilter(b *testing.B) {
	forEachTypical(b, func(b *testing.B, body []byte, _ string) {
		for b.Loop() {
			found := 0
			for rest := body; len(rest) > 0; {
				var text []byte
				text, rest, _ = bytes.Cut(rest, []byte("\n"))
				if bytes.HasPrefix(text, []byte(vllmPrefix)) || bytes.HasPrefix(text, []byte(sglangPrefix)) {
					found++
				}
			}
			require.Positive(b, found)
		}
	})
}

func forEachTypical(b *testing.B, run func(b *testing.B, body []byte, contentType string)) {
	for _, name := range []string{"sglang-0.5.15-tp8", "vllm-v1-0.30-openmetrics", "vllm-v1-0.10.2"} {
		b.Run(name, func(b *testing.B) {
			body, contentType := read(b, "testdata/"+name+".prom")
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			run(b, body, contentType)
		})
	}
}
