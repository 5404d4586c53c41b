package webhook

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/certs"
)

func TestOptionsAreValidatedAllAtOnce(t *testing.T) {
	good := Options{HTTPSAddress: "127.0.0.1:0", TLS: certs.Files{Cert: "c", Key: "k"}, DeciderUsername: "u", LeaseNamespace: "ns", LeaseName: "l"}
	require.NoError(t, good.Validate())
	bad := Options{HTTPSAddress: "nowhere", APIVersion: "v2"}
	for _, flag := range []string{"--https-address", "--tls-cert-file", "--tls-key-file", "$POD_NAMESPACE", "--decider-username", "--lease-namespace", "--lease-name", "--api-version"} {
		require.ErrorContains(t, bad.Validate(), flag)
	}
}

func TestCertificatesComeFromFilesOrAreMade(t *testing.T) {
	inPod := Options{HTTPSAddress: "127.0.0.1:0", Namespace: "scaling", DeciderUsername: "u", LeaseNamespace: "ns", LeaseName: "l"}
	require.NoError(t, inPod.Validate())
	require.True(t, inPod.selfManaged())
	inPod.TLS.Key = "k"
	require.ErrorContains(t, inPod.Validate(), "a certificate needs its key", "half of the files is a mistake")
	inPod.TLS.Cert = "c"
	require.NoError(t, inPod.Validate())
	require.False(t, inPod.selfManaged())
}

func TestDefaultsComeFromThePodsNamespace(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "scaling")
	o := NewOptions()
	require.Equal(t, "system:serviceaccount:scaling:decider", o.DeciderUsername)
	require.Equal(t, "scaling", o.LeaseNamespace)
	require.Equal(t, "scaling", o.Namespace)
	require.Equal(t, "decider", o.LeaseName)

	t.Setenv("POD_NAMESPACE", "")
	require.Empty(t, NewOptions().DeciderUsername, "outside of a Pod it must be given")
}

func TestEveryFlagIsInAGroup(t *testing.T) {
	var flags []string
	for _, g := range NewOptions().Groups() {
		require.NotEmpty(t, g.Title)
		g.Flags.VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	}
	require.ElementsMatch(t, []string{"https-address", "tls-cert-file", "tls-key-file", "decider-username", "lease-namespace",
		"lease-name", "kubeconfig", "api-version"}, flags)
}
