package authority

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const host = "webhook.scaling.svc"

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func renew(t require.TestingT, k Kept, now time.Time, settled bool) Kept {
	next, err := k.Renew(now, []string{host}, settled)
	require.NoError(t, err)
	require.NoError(t, Verify(next.Authorities, next.Cert, host, now), "what is served can always be verified")
	return next
}

// issuer says which of the authorities to trust has signed the leaf, the newest being the first.
func issuer(t require.TestingT, k Kept) int {
	leaf := parseAll(k.Cert)[0]
	for i, a := range parseAll(k.Authorities) {
		if leaf.CheckSignatureFrom(a) == nil {
			return i
		}
	}
	require.Fail(t, "nobody to trust has signed the leaf")
	return -1
}

func TestWhatIsKeptIsRenewedInTime(t *testing.T) {
	born := renew(t, Kept{}, start, false)
	require.Len(t, parseAll(born.Authorities), 1)

	t.Log("nothing changes while nothing is due")
	for _, after := range []time.Duration{0, time.Minute, 59 * day} {
		require.True(t, born.Equal(renew(t, born, start.Add(after), true)), "%s", after)
	}

	t.Log("a leaf is replaced after two thirds of its life, by the same authority")
	second := renew(t, born, start.Add(61*day), true)
	require.NotEqual(t, born.Cert, second.Cert)
	require.NotEqual(t, born.Key, second.Key)
	require.Equal(t, born.Authorities, second.Authorities)

	t.Log("so is an authority; the old one stays to be trusted, and its leaf to be served, until the new one is known")
	old := renew(t, second, start.Add(200*day), true)
	at := start.Add(245 * day)
	rotating := renew(t, old, at, true)
	require.Len(t, parseAll(rotating.Authorities), 2)
	require.True(t, bytes.HasSuffix(rotating.Authorities, old.Authorities), "the newest is the first")
	require.Equal(t, old.Cert, rotating.Cert)
	require.True(t, rotating.Equal(renew(t, rotating, at.Add(time.Hour), false)))
	rotated := renew(t, rotating, at.Add(time.Hour), true)
	require.Equal(t, rotating.Authorities, rotated.Authorities)
	require.Zero(t, issuer(t, rotated), "the new authority signs")

	t.Log("an authority is forgotten when it has expired")
	at = start.Add(300 * day)
	require.Len(t, parseAll(renew(t, rotated, at, true).Authorities), 2)
	at = start.Add(366 * day)
	require.Len(t, parseAll(renew(t, rotated, at, true).Authorities), 1)
}

func TestWhatCannotBeUsedIsMadeAnew(t *testing.T) {
	good, other := renew(t, Kept{}, start, false), renew(t, Kept{}, start, false)
	tests := []struct {
		name        string
		broken      func(*Kept)
		now         time.Time
		authorities int
		sameLeaf    bool
	}{
		{"no authority", func(k *Kept) { k.Authorities = nil }, start, 1, false},
		{"a garbled authority", func(k *Kept) { k.Authorities = []byte("x") }, start, 1, false},
		{"no key of the authority", func(k *Kept) { k.AuthorityKey = nil }, start, 2, true},
		{"the key of another authority", func(k *Kept) { k.AuthorityKey = other.AuthorityKey }, start, 2, true},
		{"a leaf in the place of the authority", func(k *Kept) { k.Authorities, k.AuthorityKey = k.Cert, k.Key }, start, 1, false},
		{"no leaf", func(k *Kept) { k.Cert = nil }, start, 1, false},
		{"no key of the leaf", func(k *Kept) { k.Key = nil }, start, 1, false},
		{"the key of another leaf", func(k *Kept) { k.Key = other.Key }, start, 1, false},
		{"the leaf of another authority", func(k *Kept) { k.Cert, k.Key = other.Cert, other.Key }, start, 1, false},
		{"everything expired", func(*Kept) {}, start.Add(400 * day), 1, false},
		{"made by a clock that was ahead", func(*Kept) {}, start.Add(-30 * day), 2, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := good
			tt.broken(&k)
			next := renew(t, k, tt.now, false)
			require.Len(t, parseAll(next.Authorities), tt.authorities)
			require.Equal(t, tt.sameLeaf, bytes.Equal(k.Cert, next.Cert))
			require.True(t, next.Equal(renew(t, next, tt.now.Add(time.Minute), false)), "once is enough")
		})
	}
	t.Run("other names", func(t *testing.T) {
		names := []string{host, "localhost", "127.0.0.1", "::1"}
		next, err := good.Renew(start, names, false)
		require.NoError(t, err)
		for _, name := range names {
			require.NoError(t, Verify(next.Authorities, next.Cert, name, start))
		}
		again, err := next.Renew(start, names, false)
		require.NoError(t, err)
		require.True(t, next.Equal(again))
		require.Equal(t, good.Authorities, next.Authorities)
	})
	t.Run("no name", func(t *testing.T) {
		_, err := good.Renew(start, nil, true)
		require.ErrorContains(t, err, "there is no name")
	})
}

// Whoever verifies may know what was to be trusted a while ago only, and looks at any moment.
func TestNobodyIsServedWhatHeCannotVerifyYet(t *testing.T) {
	const settle = 5 * time.Minute
	rapid.Check(t, func(t *rapid.T) {
		now := start
		kept := renew(t, Kept{}, now, false)
		since, rotations := now, 0
		for range rapid.IntRange(10, 30).Draw(t, "passes") {
			now = now.Add(rapid.SampledFrom([]time.Duration{time.Minute, 5 * day, 20 * day, 25 * day}).Draw(t, "then"))
			known := kept.Authorities // by who has not heard of this pass
			next := renew(t, kept, now, now.Sub(since) > settle)
			require.NoError(t, Verify(known, next.Cert, host, now))
			if !bytes.Equal(next.Authorities, known) {
				since = now
				rotations++
			}
			require.LessOrEqual(t, len(parseAll(next.Authorities)), 2)
			kept = next
		}
		lived := int(now.Sub(start) / (authorityLife * 2 / 3))
		require.GreaterOrEqual(t, rotations, lived, "authorities do get replaced")
	})
}

func TestALeafIsForServersAndNoAuthority(t *testing.T) {
	k := renew(t, Kept{}, start, false)
	leaf := parseAll(k.Cert)[0]
	require.False(t, leaf.IsCA)
	require.Equal(t, []string{host}, leaf.DNSNames)
	require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, leaf.ExtKeyUsage)
	require.Error(t, Verify(k.Authorities, k.Cert, "other.svc", start))
	require.Error(t, Verify(k.Authorities, nil, host, start))
	require.Error(t, Verify(nil, k.Cert, host, start))

	a, err := New("a", Validity{start, start.Add(time.Hour)})
	require.NoError(t, err)
	cert, _, err := a.Leaf([]string{host}, Validity{start, start.Add(day)}, x509.ExtKeyUsageServerAuth)
	require.NoError(t, err)
	require.Equal(t, start.Add(time.Hour), parseAll(cert)[0].NotAfter, "no longer valid than its authority")
}
