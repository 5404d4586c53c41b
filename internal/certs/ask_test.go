package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// greeted is what a server that asks says of its client: the common name of a certificate that was proved and verifies, why
// it does not verify, or "nobody".
func greeted(t *testing.T, server *Source, client *tls.Config) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chain := r.TLS.PeerCertificates
		if len(chain) == 0 {
			_, _ = io.WriteString(w, "nobody")
		} else if err := server.VerifyClient(chain); err != nil {
			_, _ = io.WriteString(w, err.Error())
		} else {
			_, _ = io.WriteString(w, chain[0].Subject.CommonName)
		}
	}))
	srv.TLS = server.ServerAsking()
	srv.StartTLS()
	defer srv.Close()
	resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: client, DisableKeepAlives: true}}).Get(srv.URL)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

func TestAServerThatAsksLetsEverybodyInAndKnowsWhoItIs(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	server, dir := leaf(t, ours, serverName)
	known, _ := leaf(t, ours, clientName)
	stranger, strangers := leaf(t, theirs, clientName)
	both, err := Load(Files{Cert: filepath.Join(strangers, "tls.crt"), Key: filepath.Join(strangers, "tls.key"), CA: filepath.Join(dir, "ca.crt")}, zap.NewNop())
	require.NoError(t, err)
	nobody, err := Load(Files{CA: filepath.Join(dir, "ca.crt")}, zap.NewNop())
	require.NoError(t, err)

	require.Equal(t, clientName, greeted(t, server, known.Client(serverName)))
	require.Equal(t, "nobody", greeted(t, server, nobody.Client(serverName)))
	require.Contains(t, greeted(t, server, both.Client(serverName)), "verifying the client's certificate")
	require.Error(t, stranger.VerifyClient(nil))
}

func TestAUsersCertificateVerifies(t *testing.T) {
	a := authority(t)
	s, _ := leaf(t, a, serverName)
	cert, _, err := a.Person("ann", "people")
	require.NoError(t, err)
	require.NoError(t, s.VerifyClient([]*x509.Certificate{parse(t, cert)}))
	without, err := Load(Files{}, zap.NewNop())
	require.NoError(t, err)
	require.ErrorContains(t, without.VerifyClient([]*x509.Certificate{parse(t, cert)}), "no CA file was given")
}

func parse(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	c, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return c
}
