package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// echo answers every line with itself until the listener is closed.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return listener.Addr().String()
}

// hears says whether what is sent comes back in time.
func hears(t *testing.T, c net.Conn, send string, within time.Duration) bool {
	t.Helper()
	_, err := c.Write([]byte(send))
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(within)))
	n, _ := c.Read(make([]byte, 10))
	return n > 0
}

func TestACutLinkDeliversNothingUntilItIsMended(t *testing.T) {
	for name, cut := range map[string][2]bool{"toward the sampler": {true, false}, "back": {false, true}, "both": {true, true}} {
		t.Run(name, func(t *testing.T) {
			address := echo(t)
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			ctx, cancel := context.WithCancel(t.Context())
			l, err := newLink(ctx, "127.0.0.1:0", address)
			require.NoError(t, err)
			c, err := net.Dial("tcp", l.listener.Addr().String())
			require.NoError(t, err)
			require.True(t, hears(t, c, "1", 30*time.Second))
			l.cut(cut[0], cut[1])
			require.False(t, hears(t, c, "2", 200*time.Millisecond))
			l.mend()
			require.NoError(t, c.SetReadDeadline(time.Now().Add(30*time.Second)))
			n, err := c.Read(make([]byte, 10))
			require.NoError(t, err)
			require.Equal(t, 1, n, "what was held arrives")
			cancel()
			c.Close()
			l.running.Wait()
		})
	}
}

func TestAFrontPassesCredentialsAndHoldsWhatWatchesTell(t *testing.T) {
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}))
	defer api.Close()
	f, err := newFront(t.Context(), &rest.Config{Host: api.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(&rest.Config{Host: f.Cluster.Server, BearerToken: "secret",
		TLSClientConfig: rest.TLSClientConfig{CAData: f.Cluster.CertificateAuthorityData, ServerName: f.Cluster.TLSServerName}})
	require.NoError(t, err)
	ask := func(path string) (int, string) {
		response, err := client.Get(f.Cluster.Server + path)
		if err != nil {
			return 0, ""
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(body)
	}
	_, body := ask("/pods")
	require.Equal(t, "Bearer secret", body)

	f.watches.shut()
	client.Timeout = time.Second
	_, body = ask("/pods?watch=true")
	require.Empty(t, body)
	client.Timeout = 0
	_, body = ask("/pods")
	require.NotEmpty(t, body, "other requests are answered")
	f.watches.open()
	_, body = ask("/pods?watch=true")
	require.NotEmpty(t, body)

	f.set(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusConflict) })
	code, _ := ask("/pods")
	require.Equal(t, http.StatusConflict, code)
	f.clear()
	code, _ = ask("/pods")
	require.Equal(t, http.StatusOK, code)
}

func TestAdmissionsAreRememberedByTime(t *testing.T) {
	a, start := newAdmissions(), time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	a.saw(key("m", "server", 0), at(0))
	a.saw(key("m", "server", 0), at(1))
	a.saw(key("m", "server", 0), at(100))
	one, both := workerv1.Vector{"server": 1}, workerv1.Vector{"server": 2}
	require.True(t, a.all("m", one, at(1), at(50)))
	require.False(t, a.all("m", one, at(10), at(50)))
	require.True(t, a.all("m", one, at(90), at(110)))
	require.False(t, a.all("m", both, at(0), at(100)), "one of them never had quota")
}

func TestFaultsAreChosenByName(t *testing.T) {
	all, err := choose(nil, nil)
	require.NoError(t, err)
	require.Len(t, all, len(faults))
	some, err := choose([]string{"leader-kill", "pods"}, map[string]int{"pods": 7})
	require.NoError(t, err)
	require.Len(t, some, 2)
	require.Equal(t, 7, some[1].count)
	_, err = choose([]string{"leader-kil"}, nil)
	require.ErrorContains(t, err, `no fault "leader-kil"; there are`)
	_, err = choose(nil, map[string]int{"x": 1})
	require.Error(t, err)
}
