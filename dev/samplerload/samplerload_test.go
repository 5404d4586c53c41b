package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/scrape"
)

func TestEveryRoleHasItsOwnPageThatGrows(t *testing.T) {
	for _, name := range []string{"sglang-0.5.15-tp8.prom", "vllm-v1-0.30.prom"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("..", "..", "internal", "scrape", "testdata", name)
			original, err := os.ReadFile(path)
			require.NoError(t, err)
			pages, err := makePages(options{page: path, pods: 33, perRole: 16})
			require.NoError(t, err)
			require.Len(t, pages, 3)
			require.NotEqual(t, pages[0].head, pages[1].head)
			body := string(pages[2].head) + "00000012345.0" + string(pages[2].tail)
			require.InDelta(t, len(original), len(body), 20, "about as large as the page it was made of")
			result, err := scrape.NewDecoder(scrape.Sum).Decode([]byte(body), "", "")
			require.NoError(t, err)
			found := false
			for _, kind := range result.Sample.Counters {
				for _, c := range kind {
					found = found || c.Value == 12345
				}
			}
			require.True(t, found)
		})
	}
}

func TestTheReportFailsWhatCostsTooMuchOrMissesAPass(t *testing.T) {
	o := options{pods: 32, perRole: 16, interval: 15 * time.Second, measure: time.Minute, maxCores: 0.5, maxMB: 100}
	complete := observe.Coverage{ReadyReplicas: 16, Targets: 16, Selected: 16, Answered: 16, Rated: 16}
	observed := func(roles, times int, c observe.Coverage) *observations {
		s := &observations{answering: map[observe.RoleKey]int{{Role: "a"}: 16, {Role: "b"}: 16}, rolesOf: map[observe.RoleKey]*passes{}}
		for r := range roles {
			for range times {
				s.add(observe.RoleObservation{Key: observe.RoleKey{Role: string(rune('a' + r))}, Coverage: c, Generation: observe.Known(1)})
			}
		}
		return s
	}
	lacking := complete
	lacking.Answered--
	lacking.Rated--
	cheap := &measured{cores: 0.3, maxRSS: 60 << 20}
	tests := []struct {
		name string
		m    *measured
		seen *observations
		want string
	}{
		{"all is well", cheap, observed(2, 4, complete), ""},
		{"too much CPU", &measured{cores: 0.6}, observed(2, 4, complete), "0.60 cores"},
		{"too much memory", &measured{maxRSS: 120 << 20}, observed(2, 4, complete), "120 MB"},
		{"a role that nobody heard of", cheap, observed(1, 4, complete), "1 roles"},
		{"missed passes", cheap, observed(2, 2, complete), "not observed every interval"},
		{"a Pod that did not answer", cheap, observed(2, 4, lacking), "lack Pods"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			err := report(&out, o, tt.m, tt.seen)
			require.Contains(t, out.String(), "cores")
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestSilentPodsAreSpreadAndNotWaitedFor(t *testing.T) {
	o := options{pods: 500, perRole: 16, silent: 200, interval: 15 * time.Second}
	assignments, answering, err := assign(o, []string{"127.0.0.2:1", "127.0.0.3:1", "127.0.0.1:9"})
	require.NoError(t, err)
	require.Len(t, assignments, 32)
	silent := 0
	for _, a := range assignments {
		there := 0
		for _, p := range a.Pods {
			if p.Port == 9 {
				silent++
			} else {
				there++
			}
		}
		require.Equal(t, answering[a.Key], there)
		require.NotZero(t, there)
	}
	require.Equal(t, 200, silent)
}
