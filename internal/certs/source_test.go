package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"gpustack.ai/model-deployment-scaler/internal/certs/certstest"
)

const serverName, clientName = "server.test", "client.test"

func authority(t *testing.T) *certstest.Authority {
	t.Helper()
	a, err := certstest.NewAuthority("test")
	require.NoError(t, err)
	return a
}

// leaf loads a source with a fresh leaf of a, and returns its folder.
func leaf(t *testing.T, a *certstest.Authority, names ...string) (*Source, string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, a.WriteLeaf(dir, names...))
	s, err := Load(filesIn(dir), zap.NewNop())
	require.NoError(t, err)
	return s, dir
}

func filesIn(dir string) Files {
	return Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}
}

func serve(t *testing.T, c *tls.Config) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	srv.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	srv.TLS = c
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.URL
}

func get(url string, c *tls.Config) error {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func TestMutualTLSAcceptsTheRightPeerAndRefusesEveryOther(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	server, _ := leaf(t, ours, serverName)
	url := serve(t, server.Server(AllowNames(clientName)))

	right, _ := leaf(t, ours, clientName)
	wrongName, _ := leaf(t, ours, "somebody.test")
	wrongCA, _ := leaf(t, theirs, clientName)
	caOnly, err := Load(Files{CA: right.files.CA}, zap.NewNop())
	require.NoError(t, err)

	require.NoError(t, get(url, right.Client(serverName)))
	require.ErrorContains(t, get(url, right.Client("other.test")), "verifying the server's certificate for other.test")
	require.Error(t, get(url, wrongName.Client(serverName)), "a certificate of our CA for another name")
	require.Error(t, get(url, wrongCA.Client(serverName)), "a certificate of another CA")
	require.Error(t, get(url, caOnly.Client(serverName)), "no client certificate")
}

func TestAServerWithoutPeerFunctionAsksForNoClientCertificate(t *testing.T) {
	a := authority(t)
	server, dir := leaf(t, a, serverName)
	client, err := Load(Files{CA: filepath.Join(dir, "ca.crt")}, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, get(serve(t, server.Server(nil)), client.Client(serverName)))
}

func TestARotatedPairServesTheNextHandshake(t *testing.T) {
	before, after := authority(t), authority(t)
	server, dir := leaf(t, before, serverName)
	url := serve(t, server.Server(nil))
	client, clientDir := leaf(t, before, clientName)
	require.NoError(t, get(url, client.Client(serverName)))

	require.NoError(t, after.WriteLeaf(dir, serverName))
	server.reload()
	require.Error(t, get(url, client.Client(serverName)), "the client does not know the new CA yet")

	require.NoError(t, after.WriteLeaf(clientDir, clientName))
	client.reload()
	require.NoError(t, get(url, client.Client(serverName)))
}

func TestABrokenFileKeepsTheOldPairAndIsLoggedOnce(t *testing.T) {
	a := authority(t)
	core, logs := observer.New(zap.WarnLevel)
	dir := t.TempDir()
	require.NoError(t, a.WriteLeaf(dir, serverName))
	server, err := Load(filesIn(dir), zap.New(core))
	require.NoError(t, err)
	url := serve(t, server.Server(nil))
	client, _ := leaf(t, a, clientName)

	good, err := os.ReadFile(filepath.Join(dir, "tls.crt"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("garbage"), 0o600))
	server.reload()
	server.reload()
	require.NoError(t, get(url, client.Client(serverName)))
	require.Equal(t, 1, logs.FilterMessageSnippet("kept the old certificates").Len())

	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), good, 0o600))
	server.reload()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("garbage"), 0o600))
	server.reload()
	require.Equal(t, 2, logs.FilterMessageSnippet("kept the old certificates").Len(), "a new fault, after the old file was put back")
}

func TestLoadingNamesTheFileThatCannotBeUsed(t *testing.T) {
	_, dir := leaf(t, authority(t), serverName)
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for name, row := range map[string]struct {
		files Files
		want  string
	}{
		"a certificate without its key": {Files{Cert: filepath.Join(dir, "tls.crt")}, "needs its key"},
		"a file that is not there":      {Files{CA: filepath.Join(dir, "absent")}, "absent"},
		"a CA file without certificate": {Files{CA: empty}, "no certificate in it"},
		"a key that is none":            {Files{Cert: filepath.Join(dir, "tls.crt"), Key: empty}, empty},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(row.files, zap.NewNop())
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestACertificateCanBeHandedOver(t *testing.T) {
	a := authority(t)
	first, key, err := a.Leaf(serverName)
	require.NoError(t, err)
	second, otherKey, err := a.Leaf(serverName)
	require.NoError(t, err)
	s := Empty(zap.NewNop())
	require.Nil(t, s.Cert())
	require.True(t, s.NotAfter().IsZero())
	require.NoError(t, s.Check())
	client, _ := leaf(t, a, clientName)
	url := serve(t, s.Server(nil))
	require.Error(t, get(url, client.Client(serverName)), "nothing is served yet")

	require.NoError(t, s.Use(first, key, nil))
	require.NoError(t, get(url, client.Client(serverName)))
	require.Error(t, s.Use(second, key, nil), "the key is another one's")
	require.Equal(t, first, s.Cert(), "the old pair stays")
	require.NoError(t, s.Use(second, otherKey, nil))
	require.Equal(t, second, s.Cert())
	require.NoError(t, get(url, client.Client(serverName)))
	require.False(t, s.NotAfter().IsZero())
}

func TestAuthoritiesAreHandedOverWithTheCertificate(t *testing.T) {
	before, after := authority(t), authority(t)
	server, _ := leaf(t, before, serverName)
	url := serve(t, server.Server(AllowNames(clientName)))
	cert, key, err := before.Leaf(clientName)
	require.NoError(t, err)
	s := Empty(zap.NewNop())
	require.Error(t, s.Use(nil, nil, before.PEM), "no certificate")
	require.ErrorContains(t, get(url, s.Client(serverName)), "unknown authority", "without authorities nobody is trusted, not the system's")
	require.NoError(t, s.Use(cert, key, nil))
	require.ErrorContains(t, get(url, s.Client(serverName)), "unknown authority")
	require.ErrorContains(t, s.Use(cert, key, []byte("garbage")), "no certificate in it")
	require.NoError(t, s.Use(cert, key, slices.Concat(after.PEM, before.PEM)))
	require.NoError(t, get(url, s.Client(serverName)))
	require.NoError(t, s.Use(cert, key, after.PEM))
	require.ErrorContains(t, get(url, s.Client(serverName)), "unknown authority", "an authority that is gone is forgotten")
}

func TestFilesThatComeLaterAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := authority(t)
		core, logs := observer.New(zap.WarnLevel)
		dir := t.TempDir()
		s, err := Await(filesIn(dir), zap.New(core))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()

		synctest.Wait()
		require.ErrorContains(t, s.Check(), "waiting for certificates")
		require.ErrorContains(t, s.Check(), filepath.Join(dir, "tls.crt"))
		require.Error(t, s.VerifyClient([]*x509.Certificate{parse(t, a.PEM)}), "nobody is trusted yet")
		time.Sleep(time.Hour)
		require.Equal(t, 1, logs.FilterMessageSnippet("waiting for certificates").Len())

		require.NoError(t, a.WriteLeaf(dir, serverName))
		require.ErrorContains(t, s.Check(), "about to be read")
		time.Sleep(awaitInterval)
		synctest.Wait()
		require.NoError(t, s.Check())
		require.NotEmpty(t, s.Cert())
		cancel()
		require.NoError(t, <-ended)
	})
	_, err := Await(Files{Cert: "tls.crt"}, zap.NewNop())
	require.ErrorContains(t, err, "needs its key")
}

func TestAMetricTellsWhenTheCertificateEnds(t *testing.T) {
	s := Empty(zap.NewNop())
	require.Zero(t, testutil.ToFloat64(s.Expiry("end")))
	cert, key, err := authority(t).Leaf(serverName)
	require.NoError(t, err)
	require.NoError(t, s.Use(cert, key, nil))
	require.InDelta(t, s.NotAfter().Unix(), testutil.ToFloat64(s.Expiry("end")), 0)
}

// A client may keep the session of an earlier connection, and with it the certificate that it showed then.
func TestAResumedSessionIsOfAnAuthorityThatIsTrustedStill(t *testing.T) {
	before, after := authority(t), authority(t)
	cert, key, err := before.Leaf(serverName)
	require.NoError(t, err)
	server := Empty(zap.NewNop())
	require.NoError(t, server.Use(cert, key, slices.Concat(after.PEM, before.PEM)))
	url := serve(t, server.Server(AllowNames(clientName)))
	client, _ := leaf(t, before, clientName)
	resumed := false
	config := client.Client(serverName)
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	verify := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error { resumed = state.DidResume; return verify(state) }
	require.NoError(t, get(url, config))
	require.NoError(t, get(url, config))
	require.True(t, resumed)
	require.NoError(t, server.Use(cert, key, after.PEM))
	require.Error(t, get(url, config), "its certificate is of an authority that is gone")
	require.False(t, resumed)
}
