package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const webhookObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: hooked}
---
apiVersion: v1
kind: Service
metadata: {name: hook, namespace: hooked}
spec: {ports: [{port: 9443}]}
`

const webhookConfiguration = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook}
webhooks:
- name: hook.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: hooked}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [secrets], operations: [CREATE]}]
  clientConfig:
    caBundle: %s
    service: {name: hook, namespace: hooked, port: 9443}
`

// TestWebhooksAreCalledThroughTheirService shows what ClusterIPs on loopback
// are for: whoever listens there is the Service.
func TestWebhooksAreCalledThroughTheirService(t *testing.T) {
	shared.kubectl(t, webhookObjects, "apply", "-f", "-")
	clusterIP := shared.kubectl(t, "", "get", "service", "hook", "-n", "hooked", "-o", "jsonpath={.spec.clusterIP}")
	require.True(t, netip.MustParsePrefix(shared.ServiceCIDR).Contains(netip.MustParseAddr(clusterIP)))
	listener, err := net.Listen("tcp", clusterIP+":9443")
	require.NoError(t, err)
	pair := selfSigned(t, "hook.hooked.svc")
	server := &httptest.Server{
		Listener: listener,
		TLS:      &tls.Config{Certificates: []tls.Certificate{pair}},
		Config:   &http.Server{Handler: http.HandlerFunc(refuse)},
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	shared.kubectl(t, fmt.Sprintf(webhookConfiguration, base64.StdEncoding.EncodeToString(bundle)), "apply", "-f", "-")
	t.Cleanup(func() { shared.kubectl(t, "", "delete", "validatingwebhookconfiguration", "hook") })
	require.Eventually(t, func() bool {
		output, err := shared.kubectlCommand("", "create", "secret", "generic", "s", "-n", "hooked", "--dry-run=server").CombinedOutput()
		return err != nil && strings.Contains(string(output), "refused at "+clusterIP+":9443")
	}, patience, tick)
}

// refuse answers an AdmissionReview with the address it arrived at.
func refuse(w http.ResponseWriter, r *http.Request) {
	var review map[string]any
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review["response"] = map[string]any{
		"uid":     review["request"].(map[string]any)["uid"],
		"allowed": false,
		"status":  map[string]any{"message": fmt.Sprint("refused at ", r.Context().Value(http.LocalAddrContextKey))},
	}
	delete(review, "request")
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func selfSigned(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}
