package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	authorityLifetime   = 10 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour
	// clockSlack lets a certificate be valid at once for a process whose
	// clock is a little behind (a virtual machine after suspend).
	clockSlack = 5 * time.Minute
)

// pki is the folder with the cluster's keys and certificates. The authority
// and the service-account key live as long as the data; the certificates are
// made anew at every start.
type pki struct{ dir string }

func (p pki) cert(name string) string { return filepath.Join(p.dir, name+".crt") }
func (p pki) key(name string) string  { return filepath.Join(p.dir, name+".key") }

// Names of the files in pki, without .crt and .key.
const (
	authorityName         = "ca"
	apiServerName         = "kube-apiserver"
	etcdName              = "etcd"
	etcdClientName        = "etcd-client"
	adminName             = "admin"
	controllerManagerName = "kube-controller-manager"
	serviceAccountName    = "service-account"
)

// certificates lists what is made for a block. etcd's own gateway calls etcd,
// so its certificate serves both ways.
func certificates(b Block) map[string]x509.Certificate {
	server, client := x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth
	address, service := net.ParseIP(b.Address()), net.ParseIP(b.FirstServiceIP())
	return map[string]x509.Certificate{
		apiServerName: {
			Subject:     pkix.Name{CommonName: "kube-apiserver"},
			ExtKeyUsage: []x509.ExtKeyUsage{server},
			IPAddresses: []net.IP{address, service},
			DNSNames: []string{
				"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			},
		},
		etcdName: {
			Subject:     pkix.Name{CommonName: "etcd"},
			ExtKeyUsage: []x509.ExtKeyUsage{server, client},
			IPAddresses: []net.IP{address},
		},
		etcdClientName: {
			Subject:     pkix.Name{CommonName: "kube-apiserver-etcd-client"},
			ExtKeyUsage: []x509.ExtKeyUsage{client},
		},
		adminName: {
			Subject:     pkix.Name{CommonName: "devcluster-admin", Organization: []string{"system:masters"}},
			ExtKeyUsage: []x509.ExtKeyUsage{client},
		},
		controllerManagerName: {
			Subject:     pkix.Name{CommonName: "system:kube-controller-manager"},
			ExtKeyUsage: []x509.ExtKeyUsage{server, client},
			IPAddresses: []net.IP{address},
		},
	}
}

// createPKI fills dir with everything the cluster of a block needs.
func createPKI(dir string, b Block) (pki, error) {
	p := pki{dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return p, fmt.Errorf("creating certificates: %w", err)
	}
	authority, authorityKey, err := p.authority()
	if err != nil {
		return p, fmt.Errorf("creating certificates: %w", err)
	}
	if _, err := p.loadOrCreateKey(serviceAccountName); err != nil {
		return p, fmt.Errorf("creating certificates: %w", err)
	}
	for name, template := range certificates(b) {
		if err := p.issue(name, template, authority, authorityKey); err != nil {
			return p, fmt.Errorf("creating certificates: %w", err)
		}
	}
	return p, nil
}

// authority loads the certificate authority or makes a new one.
func (p pki) authority() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := p.loadOrCreateKey(authorityName)
	if err != nil {
		return nil, nil, err
	}
	if raw, err := readPEM(p.cert(authorityName)); err == nil {
		cert, err := x509.ParseCertificate(raw)
		return cert, key, err
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	template := x509.Certificate{
		Subject:               pkix.Name{CommonName: "devcluster"},
		NotAfter:              time.Now().Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	cert, err := p.sign(authorityName, template, &template, key, key)
	return cert, key, err
}

// issue makes a new key and certificate and writes both.
func (p pki) issue(name string, template x509.Certificate, authority *x509.Certificate, authorityKey *ecdsa.PrivateKey) error {
	key, err := p.createKey(name)
	if err != nil {
		return err
	}
	template.NotAfter = time.Now().Add(certificateLifetime)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	_, err = p.sign(name, template, authority, key, authorityKey)
	return err
}

func (p pki) sign(name string, template x509.Certificate, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-clockSlack)
	raw, err := x509.CreateCertificate(rand.Reader, &template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, fmt.Errorf("signing certificate %s: %w", name, err)
	}
	if err := writePEM(p.cert(name), "CERTIFICATE", raw, 0o644); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}

func (p pki) loadOrCreateKey(name string) (*ecdsa.PrivateKey, error) {
	raw, err := readPEM(p.key(name))
	if errors.Is(err, fs.ErrNotExist) {
		return p.createKey(name)
	}
	if err != nil {
		return nil, err
	}
	return x509.ParseECPrivateKey(raw)
}

func (p pki) createKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(p.key(name), "EC PRIVATE KEY", raw, 0o600)
}

func writePEM(path, kind string, raw []byte, mode fs.FileMode) error {
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), mode)
}

func readPEM(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("reading %s: no PEM block in it", path)
	}
	return block.Bytes, nil
}
