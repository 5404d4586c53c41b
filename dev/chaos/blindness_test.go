package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestARoleIsBlindForAsLongAsItWasMade(t *testing.T) {
	b, start := newBlindness(), time.Now()
	chat := subject{"chat", "server"}
	b.add(span{start, start.Add(10 * time.Second)}, chat)
	b.add(span{start.Add(20 * time.Second), start.Add(30 * time.Second)}, chat)
	for second, blind := range map[int]bool{-1: false, 0: true, 9: true, 11: false, 25: true, 31: false} {
		require.Equal(t, blind, b.at("chat", "server", start.Add(time.Duration(second)*time.Second)), second)
	}
	require.False(t, b.at("pair", "decode", start))
}
