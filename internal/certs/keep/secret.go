package keep

import (
	"context"
	"fmt"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"gpustack.ai/model-deployment-scaler/internal/certs/authority"
)

// Keys of Secrets: of an authority that is kept, those that it takes beside the keys of Secrets of type TLS.
const (
	Authorities  = "ca.crt"
	AuthorityKey = "ca.key"
)

// Object is one that is known by name.
type Object struct {
	Client dynamic.ResourceInterface
	Name   string
}

// Secret is one that is installed with everything else, empty: whoever may create a Secret of any kind may make one that holds
// another account's token.
type Secret struct {
	Object
	manager string // of the fields that are written
	log     *zap.Logger
}

// NewSecret is that of a name in a namespace, in which manager writes.
func NewSecret(client dynamic.Interface, namespace, name, manager string, log *zap.Logger) *Secret {
	secrets := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	return &Secret{Object{secrets.Namespace(namespace), name}, manager, log}
}

// Read it, live.
func (s *Secret) Read(ctx context.Context) (*corev1.Secret, error) {
	object, err := s.Client.Get(ctx, s.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading secret %s, which the manifests install: %w", s.Name, err)
	}
	secret := &corev1.Secret{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, secret); err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", s.Name, err)
	}
	return secret, nil
}

// Write other data into the Secret that was read. Should it have changed meanwhile, the answer is a conflict.
func (s *Secret) Write(ctx context.Context, read *corev1.Secret, data map[string][]byte) error {
	next := read.DeepCopy()
	next.Data = data
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(next)
	if err != nil {
		return fmt.Errorf("writing secret %s: %w", s.Name, err)
	}
	if _, err = s.Client.Update(ctx, &unstructured.Unstructured{Object: content}, metav1.UpdateOptions{FieldManager: s.manager}); err != nil {
		return fmt.Errorf("writing secret %s: %w", s.Name, err)
	}
	s.log.Info("renewed certificates", zap.String("secret", s.Name))
	return nil
}

// LeafOf a Secret.
func LeafOf(secret *corev1.Secret) authority.Leaf {
	return authority.Leaf{Cert: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]}
}
