package webhook

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/certs/authority"
	"gpustack.ai/model-deployment-scaler/internal/certs/keep"
)

const (
	// secretName is that of the Secret in the webhook's namespace.
	secretName = "webhook-certificates" //nolint:gosec // a name and no credentials
	// fieldManager of the keeper's writes.
	fieldManager = "model-deployment-scaler-webhook"
	// settleTime is how long a copy must have seen a new authority in both configurations before it lets it sign what all
	// serve. API servers notice a changed configuration within a second; one that is cut off for longer cannot write, either.
	settleTime = 30 * time.Second
)

// keeper makes the webhook's own certificates, in agreement with the other copies: what is kept is in a Secret, which the
// first to write it decides; caBundle of both webhook configurations is what the Secret says is to be trusted; every copy
// serves the Secret's leaf. It writes nothing else, and creates and deletes nothing.
type keeper struct {
	*keep.Loop
	secret  *keep.Secret
	configs []configuration
	source  *certs.Source
	settle  time.Duration
	log     *zap.Logger
	calm    keep.Calm             // of what the configurations trust
	refused atomic.Pointer[error] // why an API server would not accept what is served
}

func newKeeper(config *rest.Config, o *Options, log *zap.Logger) (*keeper, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	k := &keeper{
		secret:  keep.NewSecret(client, o.Namespace, secretName, fieldManager, log),
		configs: configurations(client), source: certs.Empty(log), settle: o.settle, log: log,
	}
	k.refused.Store(new(error))
	objects := []keep.Object{k.secret.Object}
	for _, c := range k.configs {
		objects = append(objects, keep.Object{Client: c.client, Name: configurationName})
	}
	k.Loop = keep.NewLoop(k.pass, o.settle, log, objects...)
	return k, nil
}

// pass brings Secret, configurations and what is served into agreement.
func (k *keeper) pass(ctx context.Context) error {
	found, err := k.read(ctx)
	if err != nil {
		return err
	}
	if cert := k.source.Cert(); cert != nil {
		k.refused.Store(new(found.accepts(cert)))
	}
	kept, err := k.keep(ctx, found)
	if err != nil {
		return err
	}
	// Those who verify come first: a leaf that they do not know yet helps nobody.
	if err := k.publish(ctx, found, kept.Authorities); err != nil {
		return err
	}
	if err := k.source.Use(kept.Leaves[0].Cert, kept.Leaves[0].Key, nil); err != nil {
		return err
	}
	k.refused.Store(new(error))
	return nil
}

// keep reads what the copies keep, renews what is due, and writes it. Of two copies that write, the second gets a conflict.
func (k *keeper) keep(ctx context.Context, found registered) (authority.Kept, error) {
	secret, err := k.secret.Read(ctx)
	if err != nil {
		return authority.Kept{}, err
	}
	kept := authority.Kept{
		Authorities: secret.Data[keep.Authorities], AuthorityKey: secret.Data[keep.AuthorityKey], Leaves: []authority.Leaf{keep.LeafOf(secret)},
	}
	now, reach := time.Now(), authority.Unknown
	if k.calm.For(now, found.hold(kept.Authorities), kept.Authorities) >= k.settle {
		reach = authority.Known
	}
	next, err := kept.Renew(now, []authority.Purpose{purpose(found.names()...)}, reach)
	if err != nil || next.Equal(kept) {
		return kept, err
	}
	return next, k.secret.Write(ctx, secret, map[string][]byte{
		keep.Authorities: next.Authorities, keep.AuthorityKey: next.AuthorityKey,
		corev1.TLSCertKey: next.Leaves[0].Cert, corev1.TLSPrivateKeyKey: next.Leaves[0].Key,
	})
}

// purpose of the certificate.
func purpose(names ...string) authority.Purpose {
	return authority.Purpose{Names: names, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
}

// check is a readiness check: a certificate is served that the configurations accept.
func (k *keeper) check() error {
	if k.source.Cert() == nil {
		return k.Err()
	}
	return errors.Join(*k.refused.Load(), k.source.Check())
}
