package cluster

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func loadCertificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	raw, err := readPEM(path)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(raw)
	require.NoError(t, err)
	return cert
}

func TestCertificatesAreSignedForTheirUse(t *testing.T) {
	const block = Block(10)
	p, err := createPKI(t.TempDir(), block)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(loadCertificate(t, p.cert(authorityName)))
	for name, template := range certificates(block) {
		_, err := loadCertificate(t, p.cert(name)).Verify(x509.VerifyOptions{Roots: roots, KeyUsages: template.ExtKeyUsage})
		require.NoError(t, err, name)
	}
	require.NoError(t, loadCertificate(t, p.cert(apiServerName)).VerifyHostname("127.10.0.1"))
	require.NoError(t, loadCertificate(t, p.cert(apiServerName)).VerifyHostname("kubernetes.default.svc"))
	require.Equal(t, []string{"system:masters"}, loadCertificate(t, p.cert(adminName)).Subject.Organization)
}

func TestPrivateKeysAreReadableByTheirOwnerOnly(t *testing.T) {
	p, err := createPKI(filepath.Join(t.TempDir(), "pki"), 10)
	require.NoError(t, err)
	keys, err := filepath.Glob(filepath.Join(p.dir, "*.key"))
	require.NoError(t, err)
	require.Len(t, keys, 2+len(certificates(10)))
	for _, path := range append(keys, p.dir) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
	}
}

func TestARestartKeepsTheAuthorityAndRenewsTheRest(t *testing.T) {
	dir := t.TempDir()
	read := func(path string) []byte {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return content
	}
	p, err := createPKI(dir, 10)
	require.NoError(t, err)
	kept := []string{p.cert(authorityName), p.key(authorityName), p.key(serviceAccountName)}
	var before [][]byte
	for _, path := range kept {
		before = append(before, read(path))
	}
	admin := read(p.cert(adminName))
	_, err = createPKI(dir, 10)
	require.NoError(t, err)
	for i, path := range kept {
		require.Equal(t, before[i], read(path), path)
	}
	require.NotEqual(t, admin, read(p.cert(adminName)))
}

func TestABrokenKeyIsReportedAndNotReplaced(t *testing.T) {
	p := pki{dir: t.TempDir()}
	require.NoError(t, os.WriteFile(p.key(authorityName), []byte("no key"), 0o600))
	_, err := createPKI(p.dir, 10)
	require.ErrorContains(t, err, p.key(authorityName))
}
