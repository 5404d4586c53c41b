package observations

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"gpustack.ai/model-deployment-scaler/internal/stream"
)

func newTestView() *View { return NewView(prometheus.NewCounter(prometheus.CounterOpts{})) }

// Whatever is published while a reader takes at his own pace: in the end he knows exactly what the view holds.
func TestAReaderEndsUpWithTheView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := newTestView()
		s := selector{namespace: rapid.SampledFrom([]string{"", "a"}).Draw(t, "namespace")}
		change := func() {
			namespace, scaler := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "ns"), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "scaler")
			if rapid.Bool().Draw(t, "forget") {
				v.Forget(namespace, scaler)
				return
			}
			roles := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"p", "d", "e"}), 1, 3, rapid.ID).Draw(t, "roles")
			v.Publish(pass(namespace, scaler, rapid.Int32Range(1, 99).Draw(t, "count"), roles...))
		}
		for range rapid.IntRange(0, 5).Draw(t, "before") {
			change()
		}
		snapshot, q := v.watch(s)
		known := map[key]int32{}
		for _, e := range snapshot {
			known[e.key] = e.latest.Constrained
		}
		take := func() bool {
			e, over := q.take()
			require.False(t, over)
			if e == nil {
				return false
			}
			if delete(known, e.key); !e.gone {
				known[e.key] = e.latest.Constrained
			}
			return true
		}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			if change(); rapid.Bool().Draw(t, "take") {
				take()
			}
		}
		for take() {
		}
		held := map[key]int32{}
		for _, e := range v.list(s) {
			held[e.key] = e.latest.Constrained
		}
		require.Equal(t, held, known)
		v.unwatch(q)
		require.Empty(t, v.watches)
	})
}

func TestPagesAreTheWholeInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, want := newTestView(), map[string]bool{}
		for i := range rapid.IntRange(0, 30).Draw(t, "scalers") {
			name := fmt.Sprint("s", i)
			v.Publish(pass("a", name, 1, "p", "d"))
			want["a/"+name+"/d=1"], want["a/"+name+"/p=1"] = true, true
		}
		size, token := rapid.IntRange(0, 9).Draw(t, "size"), ""
		var got []string
		for {
			after, err := parsePageToken(token)
			require.NoError(t, err)
			answer := page(sorted(v.list(selector{})), after, size, time.Now())
			if size > 0 {
				require.LessOrEqual(t, len(answer.Observations), size)
			}
			for _, o := range answer.Observations {
				got = append(got, shortOf(o))
			}
			if token = answer.NextPageToken; token == "" {
				break
			}
			require.NotEmpty(t, answer.Observations)
		}
		require.Equal(t, slices.Sorted(maps.Keys(want)), got)
	})
}

func TestPagesFitIntoMessages(t *testing.T) {
	v := newTestView()
	for i := range 5000 {
		v.Publish(pass("a", fmt.Sprint("scaler-with-quite-a-long-name-", i), 1, "prefill", "decode"))
	}
	entries, after, got := sorted(v.list(selector{})), key{}, 0
	for {
		answer := page(entries, after, 0, time.Now())
		answer.Leader, answer.ForwardedBy = "decider-0_0123456789@10.0.0.7:9443", "decider-1_0123456789@10.0.0.8:9443"
		require.LessOrEqual(t, proto.Size(answer), stream.MaxMessage)
		got += len(answer.Observations)
		if answer.NextPageToken == "" {
			break
		}
		var err error
		after, err = parsePageToken(answer.NextPageToken)
		require.NoError(t, err)
	}
	require.Equal(t, 10000, got)
}

func BenchmarkPublish(b *testing.B) {
	for _, watches := range []int{0, 1, maxWatches} {
		b.Run(fmt.Sprintf("%d watches of everything that nobody reads", watches), func(b *testing.B) {
			v := newTestView()
			for range watches {
				v.watch(selector{})
			}
			p := pass("a", "chat", 1, "prefill", "decode")
			for b.Loop() {
				v.Publish(p)
			}
		})
	}
}
