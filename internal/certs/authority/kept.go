package authority

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	day = 24 * time.Hour
	// authorityLife and leafLife are how long what is made holds. What is past two thirds of its life is replaced, which
	// leaves a leaf a month, and an authority longer than the life of any leaf that it signs.
	authorityLife = 365 * day
	leafLife      = 90 * day
	// skew is how far the clocks of those who verify may be behind.
	skew = time.Hour
)

// Kept is what copies of a program share that makes its own certificates, all PEM.
type Kept struct {
	// Authorities are to be trusted, newest first. Each stays until it has expired, because a copy may still serve a leaf
	// of it, and somebody verify with it.
	Authorities []byte
	// AuthorityKey is that of the newest, which signs. The keys of the others are gone.
	AuthorityKey []byte
	// Cert and Key are served, by all copies.
	Cert, Key []byte
}

// Equal says whether both are the same, byte by byte.
func (k Kept) Equal(o Kept) bool {
	return bytes.Equal(k.Authorities, o.Authorities) && bytes.Equal(k.AuthorityKey, o.AuthorityKey) &&
		bytes.Equal(k.Cert, o.Cert) && bytes.Equal(k.Key, o.Key)
}

// Renew returns what to keep from now on: the same, while nothing is due. The zero value, and what cannot be read, is made
// anew. A leaf for other names than these is replaced at once.
//
// A new authority joins those to be trusted, and the old leaf goes on being served. Only when settled says that whoever
// verifies has known the newest authority for long enough does it sign the leaf; not before, unless there is no leaf to serve
// meanwhile. So at no time is a leaf served that somebody cannot verify yet.
func (k Kept) Renew(now time.Time, names []string, settled bool) (Kept, error) {
	if len(names) == 0 {
		return k, errors.New("renewing certificates: there is no name to make one for")
	}
	trusted := usable(parseAll(k.Authorities), now)
	signer, err := k.signer(trusted)
	if err != nil || due(signer.cert, now) || now.Before(signer.cert.NotBefore) {
		if signer, err = New("authority of "+names[0], Validity{now.Add(-skew), now.Add(authorityLife)}); err != nil {
			return k, err
		}
		trusted, settled = slices.Insert(trusted, 0, signer.cert), false
	}
	next := Kept{Authorities: bundle(trusted), AuthorityKey: signer.KeyPEM, Cert: k.Cert, Key: k.Key}
	if k.leafStays(now, names, trusted, settled) {
		return next, nil
	}
	next.Cert, next.Key, err = signer.Leaf(names, Validity{now.Add(-skew), now.Add(leafLife)}, x509.ExtKeyUsageServerAuth)
	return next, err
}

// signer is the newest authority; an error when there is none, or not its key.
func (k Kept) signer(trusted []*x509.Certificate) (*Authority, error) {
	if len(trusted) == 0 {
		return nil, errors.New("reading an authority: there is none")
	}
	return Parse(bundle(trusted[:1]), k.AuthorityKey)
}

// leafStays says whether the leaf can be served, and should be.
func (k Kept) leafStays(now time.Time, names []string, trusted []*x509.Certificate, settled bool) bool {
	pair, err := tls.X509KeyPair(k.Cert, k.Key)
	if err != nil || verify(pair.Leaf, trusted, names, now) != nil {
		return false
	}
	if pair.Leaf.CheckSignatureFrom(trusted[0]) == nil {
		return !due(pair.Leaf, now)
	}
	return !settled
}

// Verify says why a client that trusts the bundle would not accept the certificate for a name; nil when it would.
func Verify(bundle, cert []byte, name string, now time.Time) error {
	certs := parseAll(cert)
	if len(certs) == 0 {
		return errors.New("verifying a certificate: there is none")
	}
	return verify(certs[0], parseAll(bundle), []string{name}, now)
}

func verify(leaf *x509.Certificate, trusted []*x509.Certificate, names []string, now time.Time) error {
	roots := x509.NewCertPool()
	for _, cert := range trusted {
		roots.AddCert(cert)
	}
	for _, name := range names {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now}); err != nil {
			return fmt.Errorf("verifying a certificate for %s: %w", name, err)
		}
	}
	return nil
}

func usable(authorities []*x509.Certificate, now time.Time) []*x509.Certificate {
	return slices.DeleteFunc(authorities, func(c *x509.Certificate) bool { return !c.IsCA || now.After(c.NotAfter) })
}

// due says whether two thirds of the life have passed.
func due(cert *x509.Certificate, now time.Time) bool {
	return now.After(cert.NotAfter.Add(-cert.NotAfter.Sub(cert.NotBefore) / 3))
}

func bundle(certs []*x509.Certificate) (out []byte) {
	for _, cert := range certs {
		out = append(out, encode("CERTIFICATE", cert.Raw)...)
	}
	return out
}
