package stream

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// BenchmarkReplay measures a fail-over: a new leader takes 30 minutes of 1000 roles at 15 s from one sampler over loopback.
func BenchmarkReplay(b *testing.B) {
	backend := &recorder{}
	for role := range 1000 {
		for sequence := range uint64(120) {
			backend.history = append(backend.history, observation(fmt.Sprintf("role-%d", role), sequence))
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	server := NewServer(ServerOptions{Shard: "shard-0", Log: zap.NewNop(), Registerer: prometheus.NewRegistry()}, backend)
	ctx, cancel := context.WithCancel(b.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(ctx, listener, nil) }()

	for b.Loop() {
		takeReplay(b, listener.Addr().String(), len(backend.history))
	}
	b.ReportMetric(float64(len(backend.history)*b.N)/b.Elapsed().Seconds(), "observations/s")
	cancel()
	require.NoError(b, <-stopped)
}

func takeReplay(b *testing.B, address string, want int) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var received atomic.Int64
	all := make(chan struct{})
	pool := NewPool(PoolOptions{
		Leader: "bench", Epoch: Epoch{LeaseUID: "lease"}, ReplaySpan: time.Hour, Log: zap.NewNop(), Registerer: prometheus.NewRegistry(), OnChange: func() {},
		OnReplay: func(_ string, r Replay, _ time.Time) {
			if received.Add(int64(r.Len())) == int64(want) {
				close(all)
			}
		},
	})
	pool.SetMembers([]Member{{"sampler", address}})
	done := make(chan error, 1)
	go func() { done <- pool.Run(ctx) }()
	<-all
	cancel()
	require.NoError(b, <-done)
}
