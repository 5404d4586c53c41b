package authority

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// somebodyElses authority, which is as New makes one but for what is changed.
func somebodyElses(t *testing.T, valid Validity, changed func(*x509.Certificate)) *Authority {
	t.Helper()
	template := certificate("somebody else's", valid)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	changed(template)
	cert, key, err := sign(template, nil)
	require.NoError(t, err)
	a, err := Parse(cert, key)
	require.NoError(t, err)
	return a
}

// restricted authorities cannot sign for every purpose.
func restricted(t *testing.T) map[string]*Authority {
	valid := Validity{start.Add(-day), start.Add(2000 * day)}
	return map[string]*Authority{
		"for other names":   somebodyElses(t, valid, func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"example.com"} }),
		"for servers alone": somebodyElses(t, valid, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
		"not for signing":   somebodyElses(t, valid, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }),
	}
}

func TestAnAuthorityThatCannotSignForAPurposeIsReplaced(t *testing.T) {
	good := renew(t, Kept{}, start, Unknown)
	for name, other := range restricted(t) {
		t.Run(name, func(t *testing.T) {
			alone := renew(t, Kept{other.PEM, other.KeyPEM, good.Leaves}, start, Known)
			require.Zero(t, issuer(t, alone))
			require.True(t, alone.Equal(renew(t, alone, start, Unknown)), "once is enough")

			first := renew(t, Kept{slices.Concat(other.PEM, good.Authorities), other.KeyPEM, good.Leaves}, start, Known)
			require.Len(t, parseAll(first.Authorities), 3)
			require.Equal(t, good.Leaves, first.Leaves, "they are served until the new one is known")
		})
	}
}

func TestAuthoritiesAreFew(t *testing.T) {
	kept := renew(t, Kept{}, start, Unknown)
	oldest, leaves := kept.Authorities, kept.Leaves
	for range 3 * most { // somebody takes the key away again and again
		kept.AuthorityKey = nil
		kept = renew(t, kept, start, Unknown)
		require.LessOrEqual(t, len(parseAll(kept.Authorities)), most)
	}
	require.Equal(t, leaves, kept.Leaves, "they are served until the newest is known")
	require.True(t, bytes.HasSuffix(kept.Authorities, oldest), "who has signed them is trusted for as long")
	require.Zero(t, issuer(t, renew(t, kept, start, Known)))

	kept.Authorities = bytes.Repeat(kept.Authorities, most)
	require.Len(t, parseAll(renew(t, kept, start, Unknown).Authorities), most, "each once")
}

// pieces of what may be found: good and bad, of now and of other times.
type pieces struct {
	authorities, keys [][]byte
	leaves            []Leaf
}

func everyPiece(t *testing.T) (all pieces) {
	garbage := []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	all.authorities, all.keys, all.leaves = [][]byte{garbage, []byte("x")}, [][]byte{nil, garbage}, []Leaf{{}, {garbage, garbage}}
	authorities := slices.Collect(func(yield func(*Authority) bool) {
		for _, a := range restricted(t) {
			yield(a)
		}
	})
	for _, valid := range []Validity{
		{start.Add(-skew), start.Add(authorityLife)}, {start, start.Add(30 * time.Minute)},
		{start.Add(-900 * day), start.Add(-day)}, {start.Add(100 * day), start.Add(900 * day)},
	} {
		a, err := New("authority of "+host, valid)
		require.NoError(t, err)
		authorities = append(authorities, a)
	}
	for _, a := range authorities {
		all.authorities, all.keys = append(all.authorities, a.PEM), append(all.keys, a.KeyPEM)
		for _, p := range append(slices.Clone(purposes), Purpose{[]string{"other.svc"}, purposes[0].Usage}) {
			cert, key, err := a.Leaf(p.Names, Validity{start.Add(-skew), start.Add(leafLife)}, p.Usage...)
			require.NoError(t, err)
			all.authorities, all.keys = append(all.authorities, cert), append(all.keys, key)
			all.leaves = append(all.leaves, Leaf{cert, key}, Leaf{cert, a.KeyPEM})
		}
	}
	return all
}

// What is kept may come from an old backup, from somebody else, from a hand that slipped, or from a clock that was wrong.
func TestWhateverIsFoundWhatIsKeptThenCanBeServed(t *testing.T) {
	all := everyPiece(t)
	rapid.Check(t, func(t *rapid.T) {
		var found Kept
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(all.authorities)-1), 0, 2*most).Draw(t, "authorities") {
			found.Authorities = append(found.Authorities, all.authorities[i]...)
		}
		found.AuthorityKey = all.keys[rapid.IntRange(0, len(all.keys)-1).Draw(t, "key")]
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(all.leaves)-1), 0, 3).Draw(t, "leaves") {
			found.Leaves = append(found.Leaves, all.leaves[i])
		}
		reach := rapid.SampledFrom([]Reach{Unknown, Known, Served}).Draw(t, "reach")
		now := start.Add(rapid.SampledFrom([]time.Duration{
			-800 * day, -2 * time.Hour, -10 * time.Minute, 0, 15 * time.Minute, 25 * time.Minute, 62 * day, 95 * day, 250 * day, 400 * day,
		}).Draw(t, "now"))
		kept := renew(t, found, now, reach)
		for _, leaf := range kept.Leaves {
			_, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
			require.NoError(t, err)
		}
		_, err := Parse(bundle(parseAll(kept.Authorities)[:1]), kept.AuthorityKey)
		require.NoError(t, err, "the newest can sign")
		require.LessOrEqual(t, len(parseAll(kept.Authorities)), most)
		require.True(t, kept.Equal(renew(t, kept, now, Unknown)), "once is enough")
	})
}

func FuzzWhatIsFound(f *testing.F) {
	good := renew(f, Kept{}, start, Unknown)
	f.Add(good.Authorities, good.AuthorityKey, good.Leaves[0].Cert, good.Leaves[0].Key)
	f.Add(bytes.Repeat([]byte("-----BEGIN CERTIFICATE-----\n"), 100), good.AuthorityKey, good.Leaves[0].Cert, []byte(nil))
	f.Add(bytes.Repeat([]byte("-----BEGIN -----"), 100), bytes.Repeat([]byte("-----BEGIN X-----\nA: b\n"), 100), []byte("\x00"), []byte("-----"))
	f.Fuzz(func(t *testing.T, authorities, key, cert, certKey []byte) {
		kept := renew(t, Kept{authorities, key, []Leaf{{cert, certKey}}}, start, Known)
		require.True(t, kept.Equal(renew(t, kept, start, Unknown)), "once is enough")
	})
}
