// Package certstest makes throw-away certificate authorities for tests and development clusters. It is never part of a
// shipped binary.
package certstest

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/certs/authority"
)

// Authority signs leaf certificates. Its PEM is the ca.crt of its leaves.
type Authority struct{ *authority.Authority }

// NewAuthority makes an authority that is valid for a day.
func NewAuthority(name string) (*Authority, error) {
	a, err := authority.New(name, aDay())
	if err != nil {
		return nil, err
	}
	return &Authority{a}, nil
}

// Leaf makes a certificate for servers and clients with the DNS names, the first being its subject too. It returns PEM.
func (a *Authority) Leaf(names ...string) (cert, key []byte, err error) {
	return a.Authority.Leaf(names, aDay(), x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
}

// Person makes a certificate of a user of Kubernetes, whose groups are organizations. It returns PEM.
func (a *Authority) Person(name string, groups ...string) (cert, key []byte, err error) {
	valid := aDay()
	return a.Sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name, Organization: groups}, NotBefore: valid.From, NotAfter: valid.Until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// WriteLeaf writes tls.crt, tls.key (mode 0600) and ca.crt of a new leaf into dir, as a mounted Secret shows them.
func (a *Authority) WriteLeaf(dir string, names ...string) error {
	cert, key, err := a.Leaf(names...)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": a.PEM} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return fmt.Errorf("writing certificate files of %s: %w", names[0], err)
		}
	}
	return nil
}

func aDay() authority.Validity {
	now := time.Now()
	return authority.Validity{From: now.Add(-time.Minute), Until: now.Add(24 * time.Hour)}
}
