package sampler

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/scrape"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// FuzzObservation shows that no pair of bodies makes an observation with a negative or a number that is none.
func FuzzObservation(f *testing.F) {
	f.Add([]byte(vllmPage(100)), []byte(vllmPage(250)), 0)
	f.Add([]byte(vllmPage(250)), []byte(vllmPage(100)), 1)
	f.Add([]byte(sglangPage(0)), []byte(sglangPage(1e9)), 2)
	f.Add([]byte("sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\n"), []byte(sglangPage(7)), 1)
	f.Add([]byte("vllm:num_requests_running 1e18\nvllm:num_requests_waiting 1e18\n"), []byte("vllm:num_requests_running NaN\n"), 0)
	decoder := scrape.NewDecoder(scrape.Sum)
	f.Fuzz(func(t *testing.T, before, after []byte, kind int) {
		a := observe.Assignment{Interval: 15 * time.Second, ReadyReplicas: 2, Pods: []observe.Pod{{Name: "p", UID: "p"}, {Name: "q", UID: "q"}}}
		a.Kind = []observe.RoleKind{observe.Server, observe.Prefill, observe.Decode}[uint(kind)%3]
		var role windows.Role
		for i, bodies := range [][2][]byte{{before, before}, {after, before}, {after, after}} {
			now := start.Add(time.Duration(i) * a.Interval)
			var results []windows.PodResult
			for _, body := range bodies {
				answer, err := decoder.Decode(body, "", "")
				result := windows.PodResult{At: now, Sample: answer.Sample}
				if err != nil {
					result.Reason = scrape.ReasonOf(err)
				}
				results = append(results, result)
			}
			o := role.Pass(a, now, now, results)
			for _, v := range []observe.Value{o.Running, o.Waiting, o.Prompt, o.RawPrompt, o.Generation, o.KVCacheUsage, o.TTFT.Value(), o.ITL.Value()} {
				require.True(t, v.Float64 >= 0 && !math.IsInf(v.Float64, 0), "%+v", o)
			}
			require.Equal(t, 2, o.Coverage.Rated+len(o.Coverage.Uncovered))
		}
	})
}
