package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLiesAreWellFormed(t *testing.T) {
	const page = `# HELP vllm:num_requests_running Requests in the running batch.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a b"} 7.0
vllm:num_requests_waiting{engine="0",model_name="a b"} 2.0
vllm:generation_tokens_total{engine="0"} 100.0
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 4.0
process_open_fds 74.0
`
	for name, tt := range map[string]struct {
		kind  Fault
		times int32
		lines string
	}{
		"an engine that says it is idle": {LiesIdle, 1, `vllm:num_requests_running{engine="0",model_name="a b"} 0
vllm:num_requests_waiting{engine="0",model_name="a b"} 0
vllm:generation_tokens_total{engine="0"} 100
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 4
`},
		"an engine that says it is swamped": {LiesSwamped, 1, `vllm:num_requests_running{engine="0",model_name="a b"} 7
vllm:num_requests_waiting{engine="0",model_name="a b"} 1e+12
vllm:generation_tokens_total{engine="0"} 100
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 4
`},
		"counters that jump forth": {LiesJumping, 1, `vllm:num_requests_running{engine="0",model_name="a b"} 7
vllm:num_requests_waiting{engine="0",model_name="a b"} 2
vllm:generation_tokens_total{engine="0"} 300
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 12
`},
		"and back": {LiesJumping, 2, `vllm:num_requests_running{engine="0",model_name="a b"} 7
vllm:num_requests_waiting{engine="0",model_name="a b"} 2
vllm:generation_tokens_total{engine="0"} 50
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 2
`},
	} {
		t.Run(name, func(t *testing.T) {
			lied := string(lie([]byte(page), tt.kind, tt.times))
			require.Equal(t, `# HELP vllm:num_requests_running Requests in the running batch.
# TYPE vllm:num_requests_running gauge
`+tt.lines+"process_open_fds 74\n", lied)
		})
	}
	require.Equal(t, page, string(lie([]byte(page), Healthy, 1)), "the truth is not touched")
}
