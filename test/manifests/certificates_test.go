package manifests

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// certificate is the part of cert-manager's API that the overlay uses; anything else would be a slip.
type certificate struct {
	IsCA        bool     `json:"isCA"`
	CommonName  string   `json:"commonName"`
	DNSNames    []string `json:"dnsNames"`
	SecretName  string   `json:"secretName"`
	Duration    string   `json:"duration"`
	RenewBefore string   `json:"renewBefore"`
	PrivateKey  struct {
		Algorithm      string `json:"algorithm"`
		Size           int    `json:"size"`
		RotationPolicy string `json:"rotationPolicy"`
	} `json:"privateKey"`
	Usages    []string  `json:"usages"`
	IssuerRef issuerRef `json:"issuerRef"`
}

type issuerRef struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

func certificates(t *testing.T, objects []runtime.Object) map[string]certificate {
	t.Helper()
	found := map[string]certificate{}
	for _, object := range all[*unstructured.Unstructured](objects) {
		if object.GetKind() != "Certificate" {
			continue
		}
		body, err := json.Marshal(object.Object["spec"])
		require.NoError(t, err)
		var c certificate
		require.NoError(t, yaml.UnmarshalStrict(body, &c), object.GetName())
		found[object.GetName()] = c
	}
	return found
}

func TestCertificatesCarryTheNamesThatProgramsExpect(t *testing.T) {
	usages := map[string][]string{
		"sampler": {"digital signature", "server auth"},
		"decider": {"digital signature", "client auth", "server auth"},
		"webhook": {"digital signature", "server auth"},
	}
	found := certificates(t, render(t, "overlays/cert-manager"))
	require.Len(t, found, len(components)+1)
	for _, component := range components {
		c := found[component]
		require.Equal(t, []string{component + "." + namespace + ".svc"}, c.DNSNames)
		require.Equal(t, component+"-tls", c.SecretName)
		require.Equal(t, usages[component], c.Usages)
		require.Equal(t, issuerRef{Kind: "Issuer", Name: "ca"}, c.IssuerRef)
		require.Equal(t, "Always", c.PrivateKey.RotationPolicy)
	}
	require.True(t, found["ca"].IsCA)
	for name, c := range found {
		duration, err := time.ParseDuration(c.Duration)
		require.NoError(t, err)
		before, err := time.ParseDuration(c.RenewBefore)
		require.NoError(t, err)
		require.Less(t, before, duration, name)
	}
}

func TestIssuersExist(t *testing.T) {
	objects := render(t, "overlays/cert-manager")
	issuers := map[string]*unstructured.Unstructured{}
	for _, object := range all[*unstructured.Unstructured](objects) {
		if object.GetKind() == "Issuer" {
			issuers[object.GetName()] = object
		}
	}
	for name, c := range certificates(t, objects) {
		require.Contains(t, issuers, c.IssuerRef.Name, name)
	}
	secret, _, err := unstructured.NestedString(issuers["ca"].Object, "spec", "ca", "secretName")
	require.NoError(t, err)
	require.Equal(t, certificates(t, objects)["ca"].SecretName, secret)
}

func TestWebhookConfigurationsGetTheirCA(t *testing.T) {
	const annotation = "cert-manager.io/inject-ca-from"
	objects := render(t, "overlays/cert-manager")
	want := namespace + "/webhook"
	require.Contains(t, certificates(t, objects), "webhook")
	require.Equal(t, want, one[*admissionregistrationv1.MutatingWebhookConfiguration](t, objects, namespace).Annotations[annotation])
	require.Equal(t, want, one[*admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, namespace).Annotations[annotation])
}
