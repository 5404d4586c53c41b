package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// ServerAsking makes the configuration of a server that asks clients for a certificate and takes none for an answer, too. A
// client proves that it holds the key; who signed its certificate is not verified: VerifyClient does that.
func (s *Source) ServerAsking() *tls.Config {
	config := s.Server(nil)
	quiet := config.GetConfigForClient
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := quiet(hello)
		if err != nil {
			return nil, err
		}
		c.ClientAuth = tls.RequestClientCert
		return c, nil
	}
	return config
}

// VerifyClient checks that a chain, the client's own certificate first, leads to an authority of the CA file of the moment
// and is good for clients now.
func (s *Source) VerifyClient(chain []*x509.Certificate) error {
	roots := s.current.Load().pool
	switch {
	case roots == nil:
		return errors.New("no CA file was given to verify client certificates")
	case len(chain) == 0:
		return errors.New("no client certificate was given")
	}
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return fmt.Errorf("verifying the client's certificate: %w", err)
	}
	return nil
}
