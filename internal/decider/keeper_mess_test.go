package decider

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"

	"gpustack.ai/model-deployment-scaler/dev/testcluster"
	"gpustack.ai/model-deployment-scaler/internal/certs/authority"
)

// newHurried is a keeping with short waits, beside other tests.
func newHurried(t *testing.T) *keeping {
	t.Helper()
	t.Parallel()
	k := newKeeping(t)
	k.options.CertificateSettleTime = 2 * time.Second
	return k
}

// exchangeAgain is an exchange whose last step waits until both authorities were seen.
func (k *keeping) exchangeAgain(follows *follower) {
	k.Helper()
	k.unmoved.Store(new(errors.New("sampler-0 lags behind")))
	old, deciders := k.secret(authoritySecret)["ca.crt"], k.secret(deciderSecret)["tls.crt"]
	k.put(authoritySecret, map[string][]byte{"ca.key": nil})
	k.eventually("a new authority is trusted beside the old", func() bool { return k.agreed(2, follows) })
	require.True(k, bytes.HasSuffix(k.secret(authoritySecret)["ca.crt"], old))
	k.unmoved.Store(new(error))
	k.eventually("it is alone", func() bool { return k.agreed(1, follows) })
	require.NotEqual(k, deciders, k.secret(deciderSecret)["tls.crt"])
}

func TestAuthoritiesThatFillASecretAreCutDown(t *testing.T) {
	k := newHurried(t)
	leader, follows := k.lead(), k.copy()
	k.eventually("all agree", func() bool { return k.agreed(1, follows) })
	deciders, ours := k.secret(deciderSecret)["tls.crt"], k.secret(authoritySecret)["ca.crt"]
	full := bytes.Clone(ours)
	for valid := (authority.Validity{From: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}); len(full) < 1<<20-4096; {
		stranger, err := authority.New("stranger", valid)
		require.NoError(t, err)
		full = append(full, stranger.PEM...)
	}

	k.unmoved.Store(new(errors.New("sampler-0 lags behind")))
	k.put(authoritySecret, map[string][]byte{"ca.crt": full})
	k.eventually("there are few, and all agree", func() bool { return leader.Err() == nil && k.agreed(8, follows) })
	require.Equal(t, deciders, k.secret(deciderSecret)["tls.crt"])
	k.unmoved.Store(new(error))
	k.eventually("strangers go", func() bool { return k.agreed(1, follows) })
	require.Equal(t, ours, k.secret(authoritySecret)["ca.crt"])
}

// The Lease sees to it that there is one leader. Should there be two all the same, they do not fight.
func TestTwoLeadersAtOnceAgree(t *testing.T) {
	k := newHurried(t)
	k.lead()
	k.lead()
	follows := k.copy()
	k.eventually("all agree", func() bool { return k.agreed(1, follows) })

	t.Log("in an exchange")
	k.exchangeAgain(follows)

	t.Log("when everything is lost at once")
	for _, name := range []string{authoritySecret, deciderSecret, samplerSecret} {
		k.put(name, nil)
	}
	k.eventually("all agree", func() bool { return k.agreed(1, follows) })
	require.Less(t, k.logs.FilterMessage("renewed certificates").Len(), 40)
}

// unreliable answers writes as an API server may on a bad day, each in another way; later ones pass.
type unreliable struct {
	http.RoundTripper
	writes atomic.Int64
}

func (u *unreliable) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut {
		return u.RoundTripper.RoundTrip(r)
	}
	refused := func(code int) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("no")), Request: r}, nil
	}
	switch u.writes.Add(1) {
	case 1:
		return refused(http.StatusForbidden)
	case 2, 5: // it was written, and nobody hears of it
		if response, err := u.RoundTripper.RoundTrip(r); err == nil {
			_ = response.Body.Close()
		}
		return nil, errors.New("connection reset by peer")
	case 3:
		return refused(http.StatusInternalServerError)
	case 4:
		return refused(http.StatusConflict)
	default:
		return u.RoundTripper.RoundTrip(r)
	}
}

func TestWritesThatFailAreMadeGood(t *testing.T) {
	k := newHurried(t)
	config := testcluster.Get(t).Config(t)
	server := &unreliable{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { server.RoundTripper = next; return server })
	var err error
	k.client, err = dynamic.NewForConfig(config)
	require.NoError(t, err)
	leader, follows := k.lead(), k.copy()
	k.eventually("all agree", func() bool { return k.agreed(1, follows) && leader.Err() == nil })
	require.GreaterOrEqual(t, server.writes.Load(), int64(6))

	t.Log("in an exchange")
	server.writes.Store(0)
	k.exchangeAgain(follows)
}

// late holds one write back until it is let go.
type late struct {
	http.RoundTripper
	name    string
	held    atomic.Bool
	arrived chan struct{}
	release chan struct{}
}

func (l *late) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, l.name) && l.held.CompareAndSwap(false, true) {
		close(l.arrived)
		select {
		case <-l.release:
		case <-r.Context().Done():
		}
	}
	return l.RoundTripper.RoundTrip(r)
}

// A leader may be paused at any moment, and go on when another has led since.
func TestAWriteThatComesLateChangesNothing(t *testing.T) {
	for _, name := range []string{authoritySecret, deciderSecret, samplerSecret} {
		t.Run(name, func(t *testing.T) {
			k := newHurried(t)
			server := &late{name: name, arrived: make(chan struct{}), release: make(chan struct{})}
			config := testcluster.Get(t).Config(t)
			config.Wrap(func(next http.RoundTripper) http.RoundTripper { server.RoundTripper = next; return server })
			quick := k.client
			var err error
			k.client, err = dynamic.NewForConfig(config)
			require.NoError(t, err)
			paused := k.lead()
			<-server.arrived
			k.client = quick
			k.lead()
			follows := k.copy()
			k.eventually("all agree", func() bool { return k.agreed(1, follows) })
			kept := func() [][]byte {
				return [][]byte{k.secret(authoritySecret)["ca.crt"], k.secret(deciderSecret)["tls.crt"], k.secret(samplerSecret)["tls.crt"]}
			}
			before := kept()
			close(server.release)
			k.eventually("who was paused agrees, too", func() bool { return paused.Err() == nil })
			require.Equal(t, before, kept())
		})
	}
}
