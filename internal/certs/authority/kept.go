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

// Kept is what a program keeps that makes its own certificates, all PEM.
type Kept struct {
	// Authorities are to be trusted, newest first. An older one stays until nobody serves a leaf of it, or it has expired.
	Authorities []byte
	// AuthorityKey is that of the newest, which signs. The keys of the others are gone.
	AuthorityKey []byte
	// Leaves are served, one for each purpose.
	Leaves []Leaf
}

// Leaf is a certificate with its key, both PEM.
type Leaf struct{ Cert, Key []byte }

// Purpose of a leaf: the names that it is for, of which the first is its subject, too, and what it may be used as.
type Purpose struct {
	Names []string
	Usage []x509.ExtKeyUsage
}

// Reach is how far what was renewed last has got.
type Reach int

const (
	// Unknown says that somebody who verifies may not know all the authorities yet.
	Unknown Reach = iota
	// Known says that whoever verifies knows all the authorities, so that the newest may sign.
	Known
	// Served says that the leaves are known to be the only ones that are served.
	Served
)

// Equal says whether both are the same, byte by byte.
func (k Kept) Equal(o Kept) bool {
	return bytes.Equal(k.Authorities, o.Authorities) && bytes.Equal(k.AuthorityKey, o.AuthorityKey) && slices.EqualFunc(k.Leaves, o.Leaves, Leaf.Equal)
}

// Equal says whether both are the same, byte by byte.
func (l Leaf) Equal(o Leaf) bool { return bytes.Equal(l.Cert, o.Cert) && bytes.Equal(l.Key, o.Key) }

// Renew returns what to keep from now on: the same, while nothing is due. The zero value, and what cannot be read, is made
// anew. A leaf that is not for its purpose is replaced at once.
//
// A new authority joins those to be trusted, and the old leaves go on being served. Only when it is Known does it sign; not
// before, unless there is no leaf to serve meanwhile. So at no time is a leaf served that somebody cannot verify yet. When the
// leaves of the newest authority alone are Served, the older ones are dropped.
func (k Kept) Renew(now time.Time, purposes []Purpose, reach Reach) (Kept, error) {
	if len(purposes) == 0 || slices.ContainsFunc(purposes, func(p Purpose) bool { return len(p.Names) == 0 || len(p.Usage) == 0 }) {
		return k, errors.New("renewing certificates: there is no name, or no use, to make one for")
	}
	trusted := usable(parseAll(k.Authorities), now)
	if signer, err := k.signer(trusted, now); err == nil {
		if next, err := k.signedBy(signer, k.few(trusted), now, purposes, reach); err == nil {
			return next, nil
		}
	}
	signer, err := New("authority of "+purposes[0].Names[0], Validity{now.Add(-skew), now.Add(authorityLife)})
	if err != nil {
		return k, err
	}
	return k.signedBy(signer, k.few(slices.Insert(trusted, 0, signer.cert)), now, purposes, Unknown)
}

// signedBy the newest of those to be trusted. An error says that it cannot sign for a purpose: an authority that somebody else
// has made may be restricted to other names or uses.
func (k Kept) signedBy(signer *Authority, trusted []*x509.Certificate, now time.Time, purposes []Purpose, reach Reach) (next Kept, err error) {
	next = Kept{AuthorityKey: signer.KeyPEM, Leaves: make([]Leaf, len(purposes))}
	copy(next.Leaves, k.Leaves)
	for i, p := range purposes {
		if next.Leaves[i].stays(now, p, trusted, reach) {
			continue
		}
		reach = min(reach, Known)
		if next.Leaves[i], err = signer.renewed(p, now); err != nil {
			return k, err
		}
	}
	if reach == Served {
		trusted = trusted[:1]
	}
	next.Authorities = bundle(trusted)
	return next, nil
}

// Lingering says whether older authorities are still trusted although the newest has signed all leaves.
func (k Kept) Lingering() bool {
	trusted := parseAll(k.Authorities)
	return len(trusted) > 1 && !slices.ContainsFunc(k.Leaves, func(l Leaf) bool {
		found := parseAll(l.Cert)
		return len(found) == 0 || !Signed(k.Authorities, found[0])
	})
}

// Signed says whether the newest authority of a bundle has signed a leaf.
func Signed(bundle []byte, leaf *x509.Certificate) bool {
	trusted := parseAll(bundle)
	return len(trusted) > 0 && leaf.CheckSignatureFrom(trusted[0]) == nil
}

// signer is the newest authority; an error when there is none, not its key, or another one is due.
func (k Kept) signer(trusted []*x509.Certificate, now time.Time) (*Authority, error) {
	if len(trusted) == 0 || due(trusted[0], now) || now.Before(trusted[0].NotBefore) {
		return nil, errors.New("reading an authority: there is none that may sign now")
	}
	return Parse(bundle(trusted[:1]), k.AuthorityKey)
}

func (a *Authority) renewed(p Purpose, now time.Time) (l Leaf, err error) {
	if l.Cert, l.Key, err = a.Leaf(p.Names, Validity{now.Add(-skew), now.Add(leafLife)}, p.Usage...); err != nil {
		return l, err
	}
	return l, p.Verify(a.PEM, l.Cert, now)
}

// stays says whether a leaf can be served, and should be.
func (l Leaf) stays(now time.Time, p Purpose, trusted []*x509.Certificate, reach Reach) bool {
	pair, err := tls.X509KeyPair(l.Cert, l.Key)
	if err != nil || p.verify(pair.Leaf, trusted, now) != nil {
		return false
	}
	if pair.Leaf.CheckSignatureFrom(trusted[0]) == nil {
		return !due(pair.Leaf, now)
	}
	return reach == Unknown
}

// Verify says why a peer that trusts the bundle would not accept the certificate for the purpose; nil when it would.
func (p Purpose) Verify(bundle, cert []byte, now time.Time) error {
	certs := parseAll(cert)
	if len(certs) == 0 {
		return errors.New("verifying a certificate: there is none")
	}
	return p.verify(certs[0], parseAll(bundle), now)
}

// verify for every name and every use: one of them is not enough.
func (p Purpose) verify(leaf *x509.Certificate, trusted []*x509.Certificate, now time.Time) error {
	roots := x509.NewCertPool()
	for _, cert := range trusted {
		roots.AddCert(cert)
	}
	for _, name := range p.Names {
		for _, usage := range p.Usage {
			o := x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}
			if _, err := leaf.Verify(o); err != nil {
				return fmt.Errorf("verifying a certificate for %s: %w", name, err)
			}
		}
	}
	return nil
}

// due says whether two thirds of the life have passed.
func due(cert *x509.Certificate, now time.Time) bool {
	return now.After(cert.NotAfter.Add(-cert.NotAfter.Sub(cert.NotBefore) / 3))
}
