package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

func TestPoolAndSamplerMeetOverMutualTLS(t *testing.T) {
	authority := newAuthority(t)
	s, address := secureSampler(t, authority)
	d := startDecider(t, nil, func(o *PoolOptions) { o.TLS = identity(t, authority, deciderIdentity).Client(serverIdentity) })
	defer d.stop()
	d.SetMembers([]Member{{"sampler-0", address}})
	require.Eventually(t, func() bool { return len(d.Live()) == 1 }, 10*time.Second, time.Millisecond)

	d.Assign(map[string][]observe.Assignment{"shard-0": {assignment("server")}})
	backend := s.backend.(*recorder)
	require.Eventually(t, func() bool { return len(backend.assigned()) == 1 }, 10*time.Second, time.Millisecond)
	s.Publish(observation("server", 1))
	require.Eventually(t, func() bool { return len(d.arrived()) == 1 }, 10*time.Second, time.Millisecond)
	require.Contains(t, d.arrived()[0].at.String(), " m=", "the arrival is on the monotonic clock")
	require.Less(t, d.arrived()[0].observation.Age, time.Minute)
}

func TestAPoolThatMayNotConnectSaysWhy(t *testing.T) {
	authority := newAuthority(t)
	_, address := secureSampler(t, authority)
	for name, row := range map[string]struct {
		adjust  func(*PoolOptions)
		address string
		want    string
	}{
		"a certificate for another name":       {func(o *PoolOptions) { o.TLS = identity(t, authority, "other.test.svc").Client(serverIdentity) }, address, "is not one of"},
		"a server that is not the sampler":     {func(o *PoolOptions) { o.TLS = identity(t, authority, deciderIdentity).Client("other.test.svc") }, address, "verifying the server's certificate for other.test.svc"},
		"plaintext to TLS":                     {nil, address, "Unavailable"},
		"without TLS to another machine":       {nil, "192.0.2.1:9443", "without TLS only loopback addresses"},
		"without TLS to a name that may be it": {nil, "sampler.test.svc:9443", "without TLS only loopback addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			d := startDecider(t, nil, row.adjust)
			defer d.stop()
			d.SetMembers([]Member{{"sampler-0", row.address}})
			lines := func() int { return d.logs.FilterMessageSnippet("has no session with a sampler").Len() }
			require.Eventually(t, func() bool { return lines() == 1 }, 10*time.Second, time.Millisecond)
			require.Contains(t, d.logs.All()[0].ContextMap()["error"], row.want)
			require.Equal(t, "sampler-0", d.logs.All()[0].ContextMap()["member"])
			require.Empty(t, d.Live())
		})
	}
}
