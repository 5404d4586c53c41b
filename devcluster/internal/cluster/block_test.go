package cluster

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABlocksRangesLieInItAndApart(t *testing.T) {
	for b := Block(1); b <= lastBlock; b++ {
		whole := netip.MustParsePrefix(b.String() + ".0.0/16")
		services, pods := netip.MustParsePrefix(b.ServiceCIDR()), netip.MustParsePrefix(b.PodCIDR())
		server := netip.MustParseAddr(b.Address())
		require.True(t, whole.Overlaps(services) && whole.Overlaps(pods) && whole.Contains(server))
		require.True(t, services.Contains(netip.MustParseAddr(b.FirstServiceIP())))
		require.False(t, services.Overlaps(pods))
		require.False(t, services.Contains(server) || pods.Contains(server))
	}
}

func TestClaimsMadeAtOnceNeverShareABlock(t *testing.T) {
	claims := make([]*claim, 8)
	errs := make([]error, len(claims))
	var group sync.WaitGroup
	for i := range claims {
		group.Go(func() { claims[i], errs[i] = claimBlock(t.Context(), 0) })
	}
	group.Wait()
	seen := map[Block]bool{}
	for i, c := range claims {
		require.NoError(t, errs[i])
		require.False(t, seen[c.Block], "block %s was given twice", c.Block)
		seen[c.Block] = true
	}
	for _, c := range claims {
		require.NoError(t, c.release())
	}
}

func TestABlockWithATakenPortIsPassedOver(t *testing.T) {
	for _, port := range []int{apiServerPort, etcdClientPort, etcdPeerPort, controllerManagerPort} {
		t.Run(fmt.Sprintf("port %d", port), func(t *testing.T) {
			taken, listener := takePort(t, port)
			_, err := tryClaim(t.Context(), taken)
			require.ErrorIs(t, err, syscall.EADDRINUSE)
			require.ErrorContains(t, err, taken.hostPort(port))

			require.NoError(t, listener.Close())
			c, err := claimBlock(t.Context(), taken)
			require.NoError(t, err, "the failed claim must have left nothing behind")
			require.NoError(t, c.release())
		})
	}
}

// takePort listens on a port of some block from the upper half, where no
// cluster that runs beside the test is likely to be; the end-to-end tests, which
// may run beside this one, take theirs from the upper end.
func takePort(t *testing.T, port int) (Block, net.Listener) {
	t.Helper()
	for b := Block(lastBlock - 64); b > firstBlock; b-- {
		if listener, err := net.Listen("tcp4", b.hostPort(port)); err == nil {
			return b, listener
		}
	}
	require.FailNow(t, "the port is taken in every block")
	return 0, nil
}
