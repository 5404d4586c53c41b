package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

type answer struct {
	status int
	body   string
}

// get asks the API server with a bearer token, or with no credentials.
func (i *instance) get(t *testing.T, path, token string) answer {
	t.Helper()
	field := func(name string) string {
		return i.kubectl(t, "", "config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster."+name+"}")
	}
	authority, err := base64.StdEncoding.DecodeString(field("certificate-authority-data"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(authority))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, field("server")+path, nil)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{status: response.StatusCode, body: string(body)}
}

func TestAnonymousRequestsAreRefused(t *testing.T) {
	for _, path := range []string{"/api", "/readyz", "/version"} {
		require.Equal(t, http.StatusUnauthorized, shared.get(t, path, "").status, path)
	}
	require.Equal(t, http.StatusUnauthorized, shared.get(t, "/api", "no-such-token").status)
}

func TestRBACDecidesWhatAServiceAccountMay(t *testing.T) {
	namespace := shared.namespace(t)
	shared.kubectl(t, "", "create", "serviceaccount", "reader", "-n", namespace)
	token := shared.kubectl(t, "", "create", "token", "reader", "-n", namespace)
	path := "/api/v1/namespaces/" + namespace + "/"
	refused := shared.get(t, path+"configmaps", token)
	require.Equal(t, http.StatusForbidden, refused.status)
	require.Contains(t, refused.body, "system:serviceaccount:"+namespace+":reader")

	shared.kubectl(t, "", "create", "role", "reader", "--verb=list", "--resource=configmaps", "-n", namespace)
	shared.kubectl(t, "", "create", "rolebinding", "reader", "--role=reader", "--serviceaccount="+namespace+":reader", "-n", namespace)
	require.Eventually(t, func() bool { return shared.get(t, path+"configmaps", token).status == http.StatusOK }, patience, tick)
	require.Equal(t, http.StatusForbidden, shared.get(t, path+"secrets", token).status)
}

func TestFilesWithKeysAreTheOwnersOnly(t *testing.T) {
	for _, path := range []string{shared.Kubeconfig, shared.readyFile} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), path)
	}
	require.Contains(t, shared.kubectl(t, "", "auth", "whoami"), "system:masters")
}
