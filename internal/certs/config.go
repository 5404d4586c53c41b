package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// Server makes a server's configuration. With a peer function clients must present a certificate of the CA, which peer
// then judges; without one no client certificate is asked for.
func (s *Source) Server(peer func(*x509.Certificate) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			m := s.current.Load()
			if m.cert == nil {
				return nil, errors.New("there is no certificate to serve yet")
			}
			c := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*m.cert}, NextProtos: []string{"h2", "http/1.1"}}
			if peer != nil {
				c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, m.pool
				if c.ClientCAs == nil {
					return nil, errors.New("no CA file was given to verify client certificates")
				}
				c.VerifyConnection = func(state tls.ConnectionState) error { return peer(state.PeerCertificates[0]) }
			}
			return c, nil
		},
	}
}

// Client makes a client's configuration: the server must present a certificate of the CA (the system's authorities
// without a CA file) for serverName, whatever address was dialled.
func (s *Source) Client(serverName string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: serverName,
		// Verification is done below against the CA of the moment; InsecureSkipVerify only turns off the fixed pool.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies, for resumed sessions too
		VerifyConnection: func(state tls.ConnectionState) error {
			return verifyServer(state, s.current.Load().pool, serverName)
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if cert := s.current.Load().cert; cert != nil {
				return cert, nil
			}
			return &tls.Certificate{}, nil
		},
	}
}

func verifyServer(state tls.ConnectionState, roots *x509.CertPool, serverName string) error {
	intermediates := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, DNSName: serverName})
	if err != nil {
		return fmt.Errorf("verifying the server's certificate for %s: %w", serverName, err)
	}
	return nil
}

// AllowNames makes a peer function that accepts certificates with one of the DNS names.
func AllowNames(names ...string) func(*x509.Certificate) error {
	return func(c *x509.Certificate) error {
		for _, n := range c.DNSNames {
			if slices.Contains(names, n) {
				return nil
			}
		}
		return fmt.Errorf("certificate for %v is not one of %v", c.DNSNames, names)
	}
}
