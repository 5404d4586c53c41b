package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"
)

// Validity is the time in which a certificate is good.
type Validity struct{ From, Until time.Time }

// Authority signs leaves.
type Authority struct {
	cert *x509.Certificate
	key  crypto.PrivateKey
	// PEM of its certificate, KeyPEM of its key.
	PEM, KeyPEM []byte
}

// New makes an authority with a key of its own.
func New(name string, valid Validity) (*Authority, error) {
	template := certificate(name, valid)
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	cert, key, err := sign(template, nil)
	if err != nil {
		return nil, fmt.Errorf("making authority %s: %w", name, err)
	}
	return Parse(cert, key)
}

// Parse reads an authority as New made it.
func Parse(cert, key []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("reading an authority: %w", err)
	}
	if !pair.Leaf.IsCA {
		return nil, errors.New("reading an authority: the certificate is not one of an authority")
	}
	return &Authority{cert: pair.Leaf, key: pair.PrivateKey, PEM: encode("CERTIFICATE", pair.Leaf.Raw), KeyPEM: key}, nil
}

// Leaf makes a certificate for the DNS names and addresses, of which the first is its subject too. It is valid while
// the authority is, at most. It returns PEM.
func (a *Authority) Leaf(names []string, valid Validity, usage ...x509.ExtKeyUsage) (cert, key []byte, err error) {
	if valid.From.Before(a.cert.NotBefore) {
		valid.From = a.cert.NotBefore
	}
	if valid.Until.After(a.cert.NotAfter) {
		valid.Until = a.cert.NotAfter
	}
	template := certificate(names[0], valid)
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = usage
	return a.Sign(template)
}

// Sign makes a key, and a certificate for it as the template says. It returns PEM.
func (a *Authority) Sign(template *x509.Certificate) (cert, key []byte, err error) {
	cert, key, err = sign(template, a)
	if err != nil {
		return nil, nil, fmt.Errorf("making the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return cert, key, nil
}

// sign makes a key and its certificate; without an authority it signs itself.
func sign(template *x509.Certificate, by *Authority) (cert, key []byte, err error) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return nil, nil, err
	}
	parent, signer := template, crypto.PrivateKey(own)
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, own.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", keyDER), nil
}

// certificate gets its serial number when it is signed.
func certificate(name string, valid Validity) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: valid.From, NotAfter: valid.Until}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// parseAll reads the certificates of a bundle; what is none is skipped.
func parseAll(bundle []byte) (found []*x509.Certificate) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, cert)
		}
	}
	return found
}
