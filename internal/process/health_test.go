package process

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAHeartbeatFailsWhenTheLoopStopsTicking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewHeartbeat(10 * time.Second)
		time.Sleep(9 * time.Second)
		require.NoError(t, b.Check(), "before the first beat it counts from its making")
		b.Beat()
		time.Sleep(9 * time.Second)
		require.NoError(t, b.Check())
		time.Sleep(2 * time.Second)
		require.ErrorContains(t, b.Check(), "last tick was 11s ago")
	})
}

func TestOnlyLoopbackAddressesAreLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.8.7:1": true, "[::1]:1": true, "localhost:1": true,
		":1": false, "0.0.0.0:1": false, "10.0.0.1:1": false, "example:1": false, "127.0.0.1": false,
	} {
		require.Equal(t, want, IsLoopback(address), address)
	}
}
