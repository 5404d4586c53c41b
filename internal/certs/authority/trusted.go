package authority

import (
	"crypto/x509"
	"slices"
	"time"
)

// most is how many authorities are trusted at most. Without an end they would fill the Secret that they are kept in, and then
// nothing could be renewed: it takes somebody who takes the key away again and again, or two clocks that are months apart.
const most = 8

// usable authorities, each once.
func usable(authorities []*x509.Certificate, now time.Time) []*x509.Certificate {
	seen := make(map[string]bool)
	return slices.DeleteFunc(authorities, func(c *x509.Certificate) bool {
		again := seen[string(c.Raw)]
		seen[string(c.Raw)] = true
		return again || !c.IsCA || now.After(c.NotAfter)
	})
}

// few leaves out authorities, the oldest first, that there are too many of: never the newest, nor who has signed what is served.
func (k Kept) few(trusted []*x509.Certificate) []*x509.Certificate {
	var served []*x509.Certificate
	for _, leaf := range k.Leaves {
		if found := parseAll(leaf.Cert); len(found) > 0 {
			served = append(served, found[0])
		}
	}
	for i := len(trusted) - 1; i > 0 && len(trusted) > most; i-- {
		if !slices.ContainsFunc(served, func(c *x509.Certificate) bool { return c.CheckSignatureFrom(trusted[i]) == nil }) {
			trusted = slices.Delete(slices.Clone(trusted), i, i+1)
		}
	}
	return trusted
}

func bundle(certs []*x509.Certificate) (out []byte) {
	for _, cert := range certs {
		out = append(out, encode("CERTIFICATE", cert.Raw)...)
	}
	return out
}
