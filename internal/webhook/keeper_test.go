package webhook

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gpustack.ai/model-deployment-scaler/dev/testcluster"
	"gpustack.ai/model-deployment-scaler/internal/certs/authority"
	"gpustack.ai/model-deployment-scaler/internal/certs/keep"
)

const (
	serviceHost = "webhook.model-deployment-scaler.svc"
	day         = 24 * time.Hour
)

// keeping is a cluster where copies keep certificates, without webhooks that answer.
type keeping struct {
	*testing.T
	config    *rest.Config
	core      kubernetes.Interface
	namespace string
	settle    time.Duration
}

func newKeeping(t *testing.T) *keeping {
	t.Helper()
	config := testcluster.Get(t).Config(t)
	core, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	namespace, err := core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "certificates-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	k := &keeping{T: t, config: config, core: core, namespace: namespace.Name, settle: 5 * time.Second}
	_, err = core.CoreV1().Secrets(k.namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName}}, metav1.CreateOptions{})
	require.NoError(t, err)
	mutating := shipped[admissionregistrationv1.MutatingWebhookConfiguration](t, "webhook-mutating.yaml")
	validating := shipped[admissionregistrationv1.ValidatingWebhookConfiguration](t, "webhook-validating.yaml")
	hooks := core.AdmissionregistrationV1()
	_, err = hooks.MutatingWebhookConfigurations().Create(t.Context(), &mutating, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = hooks.ValidatingWebhookConfigurations().Create(t.Context(), &validating, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = hooks.MutatingWebhookConfigurations().Delete(context.Background(), configurationName, metav1.DeleteOptions{})
		_ = hooks.ValidatingWebhookConfigurations().Delete(context.Background(), configurationName, metav1.DeleteOptions{})
	})
	return k
}

// copy of the webhook, as far as certificates go. It ends with the test.
func (k *keeping) copy() *keeper {
	k.Helper()
	made, err := newKeeper(k.config, &Options{Namespace: k.namespace, settle: k.settle}, zap.NewNop())
	require.NoError(k, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	k.Cleanup(func() { cancel(); require.NoError(k, <-ended) })
	return made
}

func (k *keeping) eventually(what string, condition func() bool) {
	k.Helper()
	require.Eventually(k, condition, patience, tick, what)
}

func (k *keeping) secret() authority.Kept {
	k.Helper()
	s, err := k.core.CoreV1().Secrets(k.namespace).Get(k.Context(), secretName, metav1.GetOptions{})
	require.NoError(k, err)
	return authority.Kept{Authorities: s.Data["ca.crt"], AuthorityKey: s.Data["ca.key"], Leaves: []authority.Leaf{keep.LeafOf(s)}}
}

// put replaces what is kept, as time would.
func (k *keeping) put(kept authority.Kept) {
	k.Helper()
	data, err := json.Marshal(map[string]any{"data": map[string]any{
		"ca.crt": kept.Authorities, "ca.key": kept.AuthorityKey, "tls.crt": kept.Leaves[0].Cert, "tls.key": kept.Leaves[0].Key}})
	require.NoError(k, err)
	_, err = k.core.CoreV1().Secrets(k.namespace).Patch(k.Context(), secretName, types.MergePatchType, data, metav1.PatchOptions{})
	require.NoError(k, err)
}

// bundles of all webhooks of both configurations.
func (k *keeping) bundles() (all []string) {
	k.Helper()
	hooks := k.core.AdmissionregistrationV1()
	mutating, err := hooks.MutatingWebhookConfigurations().Get(k.Context(), configurationName, metav1.GetOptions{})
	require.NoError(k, err)
	for _, hook := range mutating.Webhooks {
		all = append(all, string(hook.ClientConfig.CABundle))
	}
	validating, err := hooks.ValidatingWebhookConfigurations().Get(k.Context(), configurationName, metav1.GetOptions{})
	require.NoError(k, err)
	for _, hook := range validating.Webhooks {
		all = append(all, string(hook.ClientConfig.CABundle))
	}
	return all
}

// agreed says whether all copies serve what is kept, and every API server would accept it.
func (k *keeping) agreed(copies []*keeper) bool {
	k.Helper()
	kept := k.secret()
	for _, c := range copies {
		if c.check() != nil || string(c.source.Cert()) != string(kept.Leaves[0].Cert) {
			return false
		}
	}
	for _, bundle := range k.bundles() {
		if bundle != string(kept.Authorities) || purpose(serviceHost).Verify([]byte(bundle), kept.Leaves[0].Cert, time.Now()) != nil {
			return false
		}
	}
	return true
}

func count(bundle []byte) (certificates int) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		certificates++
	}
	return certificates
}

// aged are certificates that were made some days ago.
func (k *keeping) aged(days time.Duration) authority.Kept {
	k.Helper()
	made := time.Now().Add(-days * day)
	a, err := authority.New("aged", authority.Validity{From: made, Until: made.Add(365 * day)})
	require.NoError(k, err)
	cert, key, err := a.Leaf([]string{serviceHost}, authority.Validity{From: time.Now().Add(-day), Until: time.Now().Add(89 * day)}, x509.ExtKeyUsageServerAuth)
	require.NoError(k, err)
	return authority.Kept{Authorities: a.PEM, AuthorityKey: a.KeyPEM, Leaves: []authority.Leaf{{Cert: cert, Key: key}}}
}

func TestCopiesAgreeOnTheirCertificates(t *testing.T) {
	k := newKeeping(t)
	before, err := k.core.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), configurationName, metav1.GetOptions{})
	require.NoError(t, err)

	t.Log("copies that start together on an empty Secret serve one certificate, which both configurations trust")
	copies := []*keeper{k.copy(), k.copy(), k.copy()}
	k.eventually("they agree", func() bool { return k.agreed(copies) })
	first := k.secret()
	require.Equal(t, 1, count(first.Authorities))
	after, err := k.core.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), configurationName, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, before.UID, after.UID)
	for i := range after.Webhooks {
		after.Webhooks[i].ClientConfig.CABundle = nil
	}
	require.Equal(t, before.Webhooks, after.Webhooks, "nothing but caBundle was changed")

	t.Log("a caBundle that somebody wipes, or replaces, is put back")
	for _, data := range []string{`null`, `"Z2FyYmFnZQ=="`} {
		wipe := `{"webhooks": [{"name": "mutate.modeldeploymentscaler.worker.gpustack.ai", "clientConfig": {"caBundle": ` + data + `}}]}`
		_, err = k.core.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(t.Context(), configurationName,
			types.StrategicMergePatchType, []byte(wipe), metav1.PatchOptions{})
		require.True(t, err == nil || data != "null", "%v", err) // an API server may refuse what is no certificate
		k.eventually("it is put back", func() bool { return k.agreed(copies) })
	}
	require.True(t, first.Equal(k.secret()))

	t.Log("an authority past its time is replaced: first it is trusted, then it signs; the old one stays")
	old, aged := k.aged(250), time.Now()
	k.put(old)
	k.eventually("the new authority is trusted, the old leaf served", func() bool {
		kept := k.secret()
		return count(kept.Authorities) == 2 && kept.Leaves[0].Equal(old.Leaves[0]) && k.agreed(copies)
	})
	k.eventually("the new authority signs", func() bool {
		kept := k.secret()
		return !kept.Leaves[0].Equal(old.Leaves[0]) && count(kept.Authorities) == 2 && k.agreed(copies)
	})
	require.Greater(t, time.Since(aged), k.settle, "not before it has settled")

	t.Log("a Secret that was emptied is filled anew")
	_, err = k.core.CoreV1().Secrets(k.namespace).Patch(t.Context(), secretName, types.StrategicMergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{})
	require.NoError(t, err)
	k.eventually("they agree", func() bool { return count(k.secret().Authorities) == 1 && k.agreed(copies) })

	t.Log("without the Secret, what is served goes on being served; a new copy is not ready, and says why")
	require.NoError(t, k.core.CoreV1().Secrets(k.namespace).Delete(t.Context(), secretName, metav1.DeleteOptions{}))
	late := k.copy()
	k.eventually("it says what is missing", func() bool {
		err := late.check()
		return err != nil && err.Error() != "the certificates were not read yet"
	})
	require.ErrorContains(t, late.check(), `secrets "webhook-certificates" not found`)
	for _, c := range copies {
		require.NoError(t, c.check())
	}

	t.Log("an administrator who takes the fence down leaves nothing that could not come up again")
	require.NoError(t, k.core.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), configurationName, metav1.DeleteOptions{}))
	_, err = k.core.CoreV1().Secrets(k.namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName}}, metav1.CreateOptions{})
	require.NoError(t, err)
	k.eventually("the new copy is ready, too", func() bool { return late.check() == nil })
}
