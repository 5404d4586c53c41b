package certs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// pollInterval is how soon a changed file is noticed. Polling works for every kind of mount, where watching does not.
	pollInterval = 2 * time.Second
	// awaitInterval is how soon one is noticed that is waited for.
	awaitInterval = 500 * time.Millisecond
)

// Files names PEM files. Cert and Key go together; CA holds the authorities that verify the peer. Empty: none.
type Files struct{ Cert, Key, CA string }

// Validate says what is missing.
func (f Files) Validate() error {
	if (f.Cert == "") != (f.Key == "") {
		return errors.New("a certificate needs its key, and a key its certificate: give both files or none")
	}
	return nil
}

// Source holds the newest good certificates of Files, or those that it was told to Use.
type Source struct {
	files   Files
	log     *zap.Logger
	current atomic.Pointer[material]
	last    string // error logged last, so that a lasting fault is logged once
}

// material is one consistent reading of the files.
type material struct {
	cert     *tls.Certificate // nil without Cert
	pool     *x509.CertPool   // nil without CA
	raw      [3][]byte
	notAfter time.Time
}

// Load reads the files; an error names the file and what is wrong with it.
func Load(f Files, log *zap.Logger) (*Source, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	s := &Source{files: f, log: log}
	m, err := read(f)
	if err != nil {
		return nil, err
	}
	s.current.Store(m)
	return s, nil
}

// Await is Load for files that may come later, those of a Secret that is still empty: until they can be read it holds no
// certificate and trusts nobody, Run goes on looking, and Check says what is missing.
func Await(f Files, log *zap.Logger) (*Source, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	s := Empty(log)
	s.files = f
	s.reload()
	return s, nil
}

// Empty holds no certificate and trusts nobody until it is told what to Use. Run is not for it.
func Empty(log *zap.Logger) *Source {
	s := &Source{log: log}
	s.current.Store(&material{pool: x509.NewCertPool()})
	return s
}

// Use serves a certificate from now on, and trusts the authorities of a bundle (all PEM); without a bundle, nobody. An error
// leaves what was before.
func (s *Source) Use(cert, key, bundle []byte) error {
	m := &material{raw: [3][]byte{cert, key, bundle}, pool: x509.NewCertPool()}
	if old := s.current.Load(); old.cert != nil && m.equal(old) {
		return nil
	}
	if err := m.parsePair(); err != nil {
		return fmt.Errorf("reading the certificate to serve: %w", err)
	}
	if len(bundle) > 0 && !m.pool.AppendCertsFromPEM(bundle) {
		return errors.New("reading the authorities to trust: no certificate in it")
	}
	s.current.Store(m)
	s.log.Info("serving another certificate", zap.Strings("names", m.cert.Leaf.DNSNames), zap.Time("notAfter", m.notAfter))
	return nil
}

// Cert is the certificate in use, PEM; nil without one.
func (s *Source) Cert() []byte { return s.current.Load().raw[0] }

// Run notices changed files until ctx ends; it always returns nil.
func (s *Source) Run(ctx context.Context) error {
	for {
		next := pollInterval
		if s.waiting() {
			next = awaitInterval
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next):
			s.reload()
		}
	}
}

// waiting for files that have never been read.
func (s *Source) waiting() bool { return s.files.Cert != "" && s.current.Load().cert == nil }

// reload takes the files over when they changed and are good; otherwise the old pair stays.
func (s *Source) reload() {
	m, err := read(s.files)
	switch {
	case err != nil:
		if err.Error() != s.last && s.waiting() {
			s.log.Warn("waiting for certificates", zap.Error(err))
		} else if err.Error() != s.last {
			s.log.Warn("kept the old certificates: the new ones cannot be used", zap.Error(err))
		}
		s.last = err.Error()
		return
	case !m.equal(s.current.Load()):
		s.current.Store(m)
		s.log.Info("reloaded certificates", zap.String("certificate", s.files.Cert), zap.Time("notAfter", m.notAfter))
	}
	s.last = ""
}

// Check fails when the certificate has expired, or is still waited for: a readiness check.
func (s *Source) Check() error {
	if s.waiting() {
		_, err := read(s.files)
		return fmt.Errorf("waiting for certificates: %w", cmp.Or(err, errFresh))
	}
	if m := s.current.Load(); m.cert != nil && time.Now().After(m.notAfter) {
		return fmt.Errorf("the certificate for %v expired at %s", m.cert.Leaf.DNSNames, m.notAfter.Format(time.RFC3339))
	}
	return nil
}

// errFresh: files that are there by now are read in a moment.
var errFresh = errors.New("they are about to be read")

// NotAfter is the end of the certificate in use; zero without one.
func (s *Source) NotAfter() time.Time { return s.current.Load().notAfter }

func read(f Files) (*material, error) {
	m := &material{}
	for i, name := range []string{f.Cert, f.Key, f.CA} {
		if name == "" {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading TLS file: %w", err)
		}
		m.raw[i] = data
	}
	if f.Cert != "" {
		if err := m.parsePair(); err != nil {
			return nil, fmt.Errorf("reading certificate %s with key %s: %w", f.Cert, f.Key, err)
		}
	}
	if f.CA != "" {
		m.pool = x509.NewCertPool()
		if !m.pool.AppendCertsFromPEM(m.raw[2]) {
			return nil, fmt.Errorf("reading CA file %s: no certificate in it", f.CA)
		}
	}
	return m, nil
}

func (m *material) parsePair() error {
	pair, err := tls.X509KeyPair(m.raw[0], m.raw[1])
	if err != nil {
		return err
	}
	m.cert, m.notAfter = &pair, pair.Leaf.NotAfter
	return nil
}

func (m *material) equal(o *material) bool {
	for i := range m.raw {
		if !bytes.Equal(m.raw[i], o.raw[i]) {
			return false
		}
	}
	return true
}
