package webhook

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gpustack.ai/model-deployment-scaler/internal/certs/authority"
)

// secretName is that of the Secret in the webhook's namespace. It is installed empty with everything else: whoever may create
// a Secret of any kind may make one that holds another account's token.
const secretName = "webhook-certificates" //nolint:gosec // a name and no credentials

// Keys of the Secret.
const (
	keyAuthorities  = "ca.crt"
	keyAuthorityKey = "ca.key"
)

var secretResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// fieldManager of the keeper's writes.
const fieldManager = "model-deployment-scaler-webhook"

// keep reads what the copies keep, renews what is due, and writes it. Of two copies that write, the second gets a conflict.
func (k *keeper) keep(ctx context.Context, found registered) (authority.Kept, error) {
	object, err := k.secrets.Get(ctx, secretName, metav1.GetOptions{})
	if err != nil {
		return authority.Kept{}, fmt.Errorf("reading secret %s, which is installed with the webhook: %w", secretName, err)
	}
	secret := &corev1.Secret{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, secret); err != nil {
		return authority.Kept{}, fmt.Errorf("reading secret %s: %w", secretName, err)
	}
	kept := authority.Kept{
		Authorities: secret.Data[keyAuthorities], AuthorityKey: secret.Data[keyAuthorityKey],
		Cert: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey],
	}
	next, err := kept.Renew(time.Now(), found.names(), k.settled(found, kept.Authorities))
	if err != nil || next.Equal(kept) {
		return kept, err
	}
	return next, k.write(ctx, secret, next)
}

func (k *keeper) write(ctx context.Context, secret *corev1.Secret, next authority.Kept) error {
	secret.Data = map[string][]byte{
		keyAuthorities: next.Authorities, keyAuthorityKey: next.AuthorityKey,
		corev1.TLSCertKey: next.Cert, corev1.TLSPrivateKeyKey: next.Key,
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(secret)
	if err != nil {
		return fmt.Errorf("writing secret %s: %w", secretName, err)
	}
	_, err = k.secrets.Update(ctx, &unstructured.Unstructured{Object: content}, metav1.UpdateOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("writing secret %s: %w", secretName, err)
	}
	k.log.Info("renewed certificates")
	return nil
}
