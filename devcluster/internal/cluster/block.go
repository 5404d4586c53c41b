package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// Ports of every cluster; what differs between clusters is the address.
const (
	apiServerPort         = 6443
	etcdClientPort        = 2379
	etcdPeerPort          = 2380
	controllerManagerPort = 10257
	// claimPort carries no traffic: whoever listens on it owns the block. The
	// kernel gives it back when the process ends, however it ends.
	claimPort = 6440
)

const (
	firstBlock = 10
	lastBlock  = 254
	// fixedBlockPatience is how long a block that was asked for by number may
	// take to become free: its last owner's processes may still be ending.
	fixedBlockPatience = 2 * time.Second
)

// Block is the second octet K of a loopback block 127.K.0.0/16, all of whose
// addresses are local on Linux. A cluster lives in exactly one block, so any
// number of clusters can use the same ports side by side.
type Block int

func (b Block) String() string { return fmt.Sprintf("127.%d", int(b)) }

// Address is where the servers of the block listen.
func (b Block) Address() string { return fmt.Sprintf("127.%d.0.1", int(b)) }

// ServiceCIDR is the range of ClusterIPs: real loopback addresses, on which a
// proxy can listen.
func (b Block) ServiceCIDR() string { return fmt.Sprintf("127.%d.64.0/18", int(b)) }

// FirstServiceIP is the ClusterIP of the Service "kubernetes".
func (b Block) FirstServiceIP() string { return fmt.Sprintf("127.%d.64.1", int(b)) }

// PodCIDR is the range that whoever plays Pods takes their addresses from.
func (b Block) PodCIDR() string { return fmt.Sprintf("127.%d.128.0/17", int(b)) }

func (b Block) hostPort(port int) string {
	return net.JoinHostPort(b.Address(), strconv.Itoa(port))
}

func (b Block) url(port int) string { return "https://" + b.hostPort(port) }

// claim is the ownership of a block, from claimBlock until release.
type claim struct {
	Block
	listener net.Listener
}

func (c *claim) release() error { return c.listener.Close() }

// claimBlock takes the fixed block, or where that is 0 the first free one.
func claimBlock(ctx context.Context, fixed Block) (*claim, error) {
	if fixed != 0 {
		return claimFixed(ctx, fixed)
	}
	for b := Block(firstBlock); b <= lastBlock; b++ {
		c, err := tryClaim(ctx, b)
		if err == nil {
			return c, nil
		}
		if b == lastBlock || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("finding a free loopback block (127.%d to 127.%d): %w", firstBlock, lastBlock, err)
		}
	}
	panic("unreachable: the last block ends the loop")
}

func claimFixed(ctx context.Context, b Block) (*claim, error) {
	patience := time.After(fixedBlockPatience)
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		c, err := tryClaim(ctx, b)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return c, err
		}
		select {
		case <-ticker.C:
		case <-patience:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryClaim listens on the claim port first, which only one process can, and
// then looks whether the servers' ports are free.
func tryClaim(ctx context.Context, b Block) (*claim, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", b.hostPort(claimPort))
	if err != nil {
		return nil, fmt.Errorf("claiming block %s: %w", b, err)
	}
	for _, port := range []int{apiServerPort, etcdClientPort, etcdPeerPort, controllerManagerPort} {
		probe, err := config.Listen(ctx, "tcp4", b.hostPort(port))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("claiming block %s: %w", b, err), listener.Close())
		}
		if err := probe.Close(); err != nil {
			return nil, errors.Join(fmt.Errorf("claiming block %s: %w", b, err), listener.Close())
		}
	}
	return &claim{Block: b, listener: listener}, nil
}
