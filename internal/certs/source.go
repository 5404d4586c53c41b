package certs

import (
	"bytes"
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

// pollInterval is how soon a changed file is noticed. Polling works for every kind of mount, where watching does not.
const pollInterval = 5 * time.Second

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

// Empty holds no certificate until it is told to Use one. Run is not for it.
func Empty(log *zap.Logger) *Source {
	s := &Source{log: log}
	s.current.Store(&material{})
	return s
}

// Use serves a certificate (PEM) from now on; an error leaves the one before.
func (s *Source) Use(cert, key []byte) error {
	m := &material{raw: [3][]byte{cert, key}}
	if m.equal(s.current.Load()) {
		return nil
	}
	if err := m.parsePair(); err != nil {
		return fmt.Errorf("reading the certificate to serve: %w", err)
	}
	s.current.Store(m)
	s.log.Info("serving another certificate", zap.Strings("names", m.cert.Leaf.DNSNames), zap.Time("notAfter", m.notAfter))
	return nil
}

// Cert is the certificate in use, PEM; nil without one.
func (s *Source) Cert() []byte { return s.current.Load().raw[0] }

// Run notices changed files until ctx ends; it always returns nil.
func (s *Source) Run(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.reload()
		}
	}
}

// reload takes the files over when they changed and are good; otherwise the old pair stays.
func (s *Source) reload() {
	m, err := read(s.files)
	switch {
	case err != nil:
		if err.Error() != s.last {
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

// Check fails when the certificate has expired: a readiness check.
func (s *Source) Check() error {
	if m := s.current.Load(); m.cert != nil && time.Now().After(m.notAfter) {
		return fmt.Errorf("the certificate for %v expired at %s", m.cert.Leaf.DNSNames, m.notAfter.Format(time.RFC3339))
	}
	return nil
}

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
