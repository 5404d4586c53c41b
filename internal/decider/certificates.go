package decider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/dynamic"

	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/certs/keep"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/process"
)

// Secrets in the decider's namespace. What whoever leads keeps in the first is used for the certificates in the others: of all
// copies of the decider, and of all samplers, which mount it.
const (
	authoritySecret = "decider-authority"
	deciderSecret   = "decider-tls"
	samplerSecret   = "sampler-tls"
)

// openCertificates finds what this copy shows and trusts (D53): in files when there are any named, else in a Secret.
func (d *decider) openCertificates() (err error) {
	check := func() error { return d.certs.Check() }
	switch {
	case d.options.InsecureLoopback:
		return nil
	case d.options.selfManaged():
		f := newFollower(d.client.Dynamic, d.options, d.process.Log)
		d.certs, d.refresh, check = f.source, f.Run, f.check
	default:
		if d.certs, err = certs.Load(d.options.TLS, d.process.Log); err != nil {
			return err
		}
		d.refresh = d.certs.Run
	}
	d.process.Registry.MustRegister(d.certs.Expiry("mds_decider_certificate_expiry_timestamp_seconds"))
	d.process.Health.AddReady("certificates", check)
	return nil
}

// follower uses what the leader has put into the deciders' Secret. Every copy has one; that of the leader follows itself.
type follower struct {
	*keep.Loop
	secret *keep.Secret
	source *certs.Source
}

func newFollower(client dynamic.Interface, o *Options, log *zap.Logger) *follower {
	f := &follower{secret: keep.NewSecret(client, o.Namespace, deciderSecret, kube.FieldManager, log), source: certs.Empty(log)}
	f.Loop = keep.NewLoop(f.pass, o.CertificateSettleTime, log, f.secret.Object)
	return f
}

func (f *follower) pass(ctx context.Context) error {
	secret, err := f.secret.Read(ctx)
	if err != nil {
		return err
	}
	leaf := keep.LeafOf(secret)
	if len(leaf.Cert) == 0 {
		return fmt.Errorf("reading secret %s: there is no certificate in it yet: the decider that leads makes it", deciderSecret)
	}
	bundle := secret.Data[keep.Authorities]
	if len(bundle) == 0 {
		return fmt.Errorf("reading secret %s: there is no %s in it", deciderSecret, keep.Authorities)
	}
	if err := f.source.Use(leaf.Cert, leaf.Key, bundle); err != nil {
		return fmt.Errorf("reading secret %s: %w", deciderSecret, err)
	}
	return nil
}

// check is a readiness check: there is a certificate, and it is good.
func (f *follower) check() error {
	if f.source.Cert() == nil {
		return f.Err()
	}
	return f.source.Check()
}

// selfManaged says that deciders make the certificates themselves.
func (o *Options) selfManaged() bool { return o.TLS == certs.Files{} && !o.InsecureLoopback }

// validateCertificates wants all files or none.
func (o *Options) validateCertificates() error {
	if o.selfManaged() {
		if o.CertificateSettleTime < time.Second {
			return fmt.Errorf("--certificate-settle-time: %s is under 1s", o.CertificateSettleTime)
		}
		return nil
	}
	const instead = " with the other two; none of them to have the deciders keep certificates in Secrets"
	return errors.Join(
		process.Require("--tls-cert-file", o.TLS.Cert, instead),
		process.Require("--tls-key-file", o.TLS.Key, instead),
		process.Require("--tls-ca-file", o.TLS.CA, instead))
}
