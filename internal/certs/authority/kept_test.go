package authority

import (
	"bytes"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const host, peer = "decider.scaling.svc", "sampler.scaling.svc"

var (
	start    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	purposes = []Purpose{
		{[]string{host}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}},
		{[]string{peer}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
	}
)

func renew(t require.TestingT, k Kept, now time.Time, reach Reach) Kept {
	next, err := k.Renew(now, purposes, reach)
	require.NoError(t, err)
	for i, p := range purposes {
		require.NoError(t, p.Verify(next.Authorities, next.Leaves[i].Cert, now), "what is served can always be verified")
	}
	return next
}

// issuer says which of the authorities to trust has signed the leaf, the newest being the first.
func issuer(t require.TestingT, k Kept) int {
	leaf := parseAll(k.Leaves[0].Cert)[0]
	for i, a := range parseAll(k.Authorities) {
		if leaf.CheckSignatureFrom(a) == nil {
			return i
		}
	}
	require.Fail(t, "nobody to trust has signed the leaf")
	return -1
}

func TestWhatIsKeptIsRenewedInTime(t *testing.T) {
	born := renew(t, Kept{}, start, Unknown)
	require.Len(t, parseAll(born.Authorities), 1)

	t.Log("nothing changes while nothing is due")
	for _, after := range []time.Duration{0, time.Minute, 59 * day} {
		require.True(t, born.Equal(renew(t, born, start.Add(after), Known)), "%s", after)
	}

	t.Log("a leaf is replaced after two thirds of its life, by the same authority")
	second := renew(t, born, start.Add(61*day), Known)
	require.NotEqual(t, born.Leaves[0].Cert, second.Leaves[0].Cert)
	require.NotEqual(t, born.Leaves[0].Key, second.Leaves[0].Key)
	require.Equal(t, born.Authorities, second.Authorities)

	t.Log("so is an authority; the old one stays to be trusted, and its leaf to be served, until the new one is known")
	old := renew(t, second, start.Add(200*day), Known)
	at := start.Add(245 * day)
	rotating := renew(t, old, at, Known)
	require.Len(t, parseAll(rotating.Authorities), 2)
	require.True(t, bytes.HasSuffix(rotating.Authorities, old.Authorities), "the newest is the first")
	require.Equal(t, old.Leaves, rotating.Leaves)
	require.True(t, rotating.Equal(renew(t, rotating, at.Add(time.Hour), Unknown)))
	rotated := renew(t, rotating, at.Add(time.Hour), Known)
	require.Equal(t, rotating.Authorities, rotated.Authorities)
	require.Zero(t, issuer(t, rotated), "the new authority signs")

	t.Log("the old one is forgotten when nobody serves a leaf of it any more")
	require.False(t, rotating.Lingering())
	require.True(t, rotated.Lingering())
	require.Zero(t, issuer(t, renew(t, rotating, at.Add(time.Hour), Served)), "its leaves have to be served first")
	require.Len(t, parseAll(renew(t, rotating, at.Add(time.Hour), Served).Authorities), 2)
	alone := renew(t, rotated, at.Add(2*time.Hour), Served)
	require.Len(t, parseAll(alone.Authorities), 1)
	require.Equal(t, rotated.Leaves, alone.Leaves)
	require.False(t, alone.Lingering())

	t.Log("or when it has expired")
	at = start.Add(300 * day)
	require.Len(t, parseAll(renew(t, rotated, at, Known).Authorities), 2)
	at = start.Add(366 * day)
	require.Len(t, parseAll(renew(t, rotated, at, Known).Authorities), 1)
}

func TestWhatCannotBeUsedIsMadeAnew(t *testing.T) {
	good, other := renew(t, Kept{}, start, Unknown), renew(t, Kept{}, start, Unknown)
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
		{"a leaf in the place of the authority", func(k *Kept) { k.Authorities, k.AuthorityKey = k.Leaves[0].Cert, k.Leaves[0].Key }, start, 1, false},
		{"no leaves", func(k *Kept) { k.Leaves = nil }, start, 1, false},
		{"no certificate of a leaf", func(k *Kept) { k.Leaves[0].Cert = nil }, start, 1, false},
		{"no key of a leaf", func(k *Kept) { k.Leaves[0].Key = nil }, start, 1, false},
		{"the key of another leaf", func(k *Kept) { k.Leaves[0].Key = other.Leaves[0].Key }, start, 1, false},
		{"a leaf for something else", func(k *Kept) { k.Leaves[0] = k.Leaves[1] }, start, 1, false},
		{"the leaf of another authority", func(k *Kept) { k.Leaves[0] = other.Leaves[0] }, start, 1, false},
		{"everything expired", func(*Kept) {}, start.Add(400 * day), 1, false},
		{"made by a clock that was ahead", func(*Kept) {}, start.Add(-30 * day), 2, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := good
			k.Leaves = slices.Clone(k.Leaves)
			tt.broken(&k)
			next := renew(t, k, tt.now, Unknown)
			require.Len(t, parseAll(next.Authorities), tt.authorities)
			require.Equal(t, tt.sameLeaf, len(k.Leaves) > 0 && k.Leaves[0].Equal(next.Leaves[0]))
			require.True(t, next.Equal(renew(t, next, tt.now.Add(time.Minute), Unknown)), "once is enough")
		})
	}
	t.Run("other names", func(t *testing.T) {
		more := []Purpose{{[]string{host, "localhost", "127.0.0.1", "::1"}, purposes[0].Usage}, purposes[1]}
		next, err := good.Renew(start, more, Unknown)
		require.NoError(t, err)
		require.NoError(t, more[0].Verify(next.Authorities, next.Leaves[0].Cert, start))
		require.Equal(t, good.Leaves[1], next.Leaves[1], "the other leaf stays")
		again, err := next.Renew(start, more, Unknown)
		require.NoError(t, err)
		require.True(t, next.Equal(again))
		require.Equal(t, good.Authorities, next.Authorities)
	})
	t.Run("another use", func(t *testing.T) {
		next, err := good.Renew(start, []Purpose{purposes[0], {purposes[1].Names, purposes[0].Usage}}, Unknown)
		require.NoError(t, err)
		require.Equal(t, good.Leaves[0], next.Leaves[0])
		require.NotEqual(t, good.Leaves[1], next.Leaves[1])
	})
	for name, none := range map[string][]Purpose{
		"no purpose": nil, "no name": {{nil, purposes[0].Usage}}, "no use": {{[]string{host}, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := good.Renew(start, none, Known)
			require.ErrorContains(t, err, "there is no name, or no use")
		})
	}
}

// Either end may see what was kept a while ago only, and meets the other at any moment.
func TestBothEndsCanMeetAtAnyTime(t *testing.T) {
	const settle = 5 * time.Minute
	type version struct {
		kept  Kept
		until time.Time // when the next replaced it
	}
	rapid.Check(t, func(t *rapid.T) {
		now := start.Add(rapid.SampledFrom([]time.Duration{0, 170 * day, 235 * day}).Draw(t, "age"))
		kept, since := renew(t, renew(t, Kept{}, start, Unknown), now, Unknown), now
		var old []version
		for range rapid.IntRange(4, 12).Draw(t, "passes") {
			then := []time.Duration{time.Second, time.Minute, 4 * time.Minute}
			if now.Sub(since) > settle {
				then = append(then, 5*day, 20*day, 25*day)
			}
			now = now.Add(rapid.SampledFrom(then).Draw(t, "then"))
			reach := Unknown
			if now.Sub(since) > settle {
				reach = rapid.SampledFrom([]Reach{Known, Served}).Draw(t, "reach")
			}
			next := renew(t, kept, now, reach)
			if !next.Equal(kept) {
				old, kept, since = append(old, version{kept, now}), next, now
			}
			seen := []Kept{kept}
			for _, v := range old {
				if now.Sub(v.until) <= settle {
					seen = append(seen, v.kept)
				}
			}
			for i, p := range purposes { // what is seen alike was verified when it was renewed
				for one := range seen {
					for other := range one {
						require.NoError(t, p.Verify(seen[one].Authorities, seen[other].Leaves[i].Cert, now))
						require.NoError(t, p.Verify(seen[other].Authorities, seen[one].Leaves[i].Cert, now))
					}
				}
			}
			trusted := parseAll(kept.Authorities)
			require.False(t, due(trusted[0], now), "authorities do get replaced")
			require.LessOrEqual(t, len(trusted), 2)
		}
	})
}

func TestALeafIsForItsPurposeAndNoAuthority(t *testing.T) {
	k := renew(t, Kept{}, start, Unknown)
	for i, p := range purposes {
		leaf := parseAll(k.Leaves[i].Cert)[0]
		require.False(t, leaf.IsCA)
		require.Equal(t, p.Names, leaf.DNSNames)
		require.Equal(t, p.Usage, leaf.ExtKeyUsage)
		require.True(t, Signed(k.Authorities, leaf))
		require.False(t, Signed(nil, leaf))
	}
	server := purposes[1]
	require.Error(t, Purpose{[]string{"other.svc"}, server.Usage}.Verify(k.Authorities, k.Leaves[1].Cert, start))
	require.Error(t, Purpose{server.Names, purposes[0].Usage}.Verify(k.Authorities, k.Leaves[1].Cert, start), "no client")
	require.Error(t, server.Verify(k.Authorities, nil, start))
	require.Error(t, server.Verify(nil, k.Leaves[1].Cert, start))

	a, err := New("a", Validity{start, start.Add(time.Hour)})
	require.NoError(t, err)
	cert, _, err := a.Leaf([]string{host}, Validity{start, start.Add(day)}, x509.ExtKeyUsageServerAuth)
	require.NoError(t, err)
	require.Equal(t, start.Add(time.Hour), parseAll(cert)[0].NotAfter, "no longer valid than its authority")
}
