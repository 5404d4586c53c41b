package decider

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"

	"gpustack.ai/model-deployment-scaler/internal/certs/authority"
	"gpustack.ai/model-deployment-scaler/internal/certs/keep"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

const (
	// probeTimeout is how long a sampler may take to show its certificate; so many are asked at once.
	probeTimeout = 3 * time.Second
	probesAtOnce = 16
)

// keeper is the leader's: it makes and renews the authority and the certificates of deciders and samplers (D53). A new
// authority is published to both ends first and signs when it has settled; the old one is trusted until no sampler serves a
// certificate of it. It updates three Secrets, under the Lease, and writes nothing else.
type keeper struct {
	*keep.Loop
	secrets  [3]*keep.Secret // the authority's, the deciders', the samplers'
	purposes []authority.Purpose
	settle   time.Duration
	lease    lease
	moved    func(ctx context.Context, bundle []byte) error // why older authorities than the bundle's first must be trusted on
	log      *zap.Logger

	calm    keep.Calm // of what both ends serve and trust
	waiting string    // what moved said last
}

// lease gives a context to write in, or an error when the Lease is not held.
type lease func(context.Context) (context.Context, context.CancelFunc, error)

func newKeeper(client dynamic.Interface, o *Options, write lease, moved func(context.Context, []byte) error, log *zap.Logger) *keeper {
	k := &keeper{
		purposes: []authority.Purpose{
			{Names: []string{o.ServiceName}, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}},
			{Names: []string{o.SamplerServerName}, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
		},
		settle: o.CertificateSettleTime, lease: write, moved: moved, log: log,
	}
	var objects []keep.Object
	for i, name := range []string{authoritySecret, deciderSecret, samplerSecret} {
		k.secrets[i] = keep.NewSecret(client, o.Namespace, name, kube.FieldManager, log)
		objects = append(objects, k.secrets[i].Object)
	}
	k.Loop = keep.NewLoop(k.pass, o.CertificateSettleTime, log, objects...)
	return k
}

// keepCertificates for as long as this copy leads.
func (d *decider) keepCertificates(ctx context.Context) error {
	moved := func(ctx context.Context, bundle []byte) error {
		return askSamplers(ctx, d.certs.Client(d.options.SamplerServerName), d.members(), bundle)
	}
	return newKeeper(d.client.Dynamic, d.options, d.election.Write, moved, d.process.Log).Run(ctx)
}

// pass brings the three Secrets into agreement, and renews what is due.
func (k *keeper) pass(ctx context.Context) (err error) {
	var read [3]*corev1.Secret
	for i, s := range k.secrets {
		if read[i], err = s.Read(ctx); err != nil {
			return err
		}
	}
	kept := authority.Kept{
		Authorities: read[0].Data[keep.Authorities], AuthorityKey: read[0].Data[keep.AuthorityKey],
		Leaves: []authority.Leaf{keep.LeafOf(read[1]), keep.LeafOf(read[2])},
	}
	published := bytes.Equal(kept.Authorities, read[1].Data[keep.Authorities]) && bytes.Equal(kept.Authorities, read[2].Data[keep.Authorities])
	now := time.Now()
	next, err := kept.Renew(now, k.purposes, k.reach(ctx, now, kept, published))
	if err != nil {
		return err
	}
	// The authority comes first: with its key lost, nobody could renew what it has signed.
	for i, data := range []map[string][]byte{
		{keep.Authorities: next.Authorities, keep.AuthorityKey: next.AuthorityKey}, leafData(next, 0), leafData(next, 1),
	} {
		if err := k.write(ctx, k.secrets[i], read[i], data); err != nil {
			return err
		}
	}
	return nil
}

func leafData(kept authority.Kept, i int) map[string][]byte {
	return map[string][]byte{
		keep.Authorities: kept.Authorities, corev1.TLSCertKey: kept.Leaves[i].Cert, corev1.TLSPrivateKeyKey: kept.Leaves[i].Key,
	}
}

func (k *keeper) write(ctx context.Context, s *keep.Secret, read *corev1.Secret, data map[string][]byte) error {
	if maps.EqualFunc(read.Data, data, bytes.Equal) {
		return nil
	}
	ctx, cancel, err := k.lease(ctx)
	if err != nil {
		return fmt.Errorf("writing secret %s: %w", s.Name, err)
	}
	defer cancel()
	return s.Write(ctx, read, data)
}

// reach says how far what was written last has got: to the deciders at once, to the files of samplers when their kubelets have
// looked, which is what settle is for.
func (k *keeper) reach(ctx context.Context, now time.Time, kept authority.Kept, published bool) authority.Reach {
	switch calm := k.calm.For(now, published, kept.Authorities, kept.Leaves[0].Cert, kept.Leaves[1].Cert); {
	case calm < k.settle:
		return authority.Unknown
	case !kept.Lingering():
		return authority.Known
	}
	err := k.moved(ctx, kept.Authorities)
	if err == nil {
		k.waiting = ""
		return authority.Served
	}
	if message := err.Error(); message != k.waiting {
		k.waiting = message
		k.log.Info("trusts an older authority for longer", zap.Error(err))
	}
	return authority.Known
}

// askSamplers for their certificates, on connections of their own: those of sessions may be months old. It says which of them
// serves one that is not of the bundle's first authority, or cannot be asked.
func askSamplers(ctx context.Context, config *tls.Config, members []stream.Member, bundle []byte) error {
	config.NextProtos = []string{"h2"}
	var g errgroup.Group
	g.SetLimit(probesAtOnce)
	for _, m := range members {
		g.Go(func() error {
			leaf, err := served(ctx, config, m.Address)
			if err == nil && !authority.Signed(bundle, leaf) {
				err = errors.New("it serves one of an older authority still")
			}
			if err != nil {
				return fmt.Errorf("asking sampler %s for its certificate: %w", m.Name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// served is the certificate of whoever listens there.
func served(ctx context.Context, config *tls.Config, address string) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = raw.Close() }()
	connection := tls.Client(raw, config)
	if err := connection.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return connection.ConnectionState().PeerCertificates[0], nil
}
