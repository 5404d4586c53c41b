package main

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// link stands between the deciders and a sampler. Each direction can be cut: what is sent then arrives only when the link is
// whole again, as in a network that loses packets, and no end is told.
type link struct {
	listener net.Listener
	to       string
	toward   gate // decider to sampler
	back     gate // sampler to decider
	done     <-chan struct{}
	running  sync.WaitGroup
}

// newLink forwards from one address to another until ctx ends.
func newLink(ctx context.Context, from, to string) (*link, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", from)
	if err != nil {
		return nil, fmt.Errorf("listening for a sampler: %w", err)
	}
	l := &link{listener: listener, to: to, done: ctx.Done()}
	context.AfterFunc(ctx, func() { _ = listener.Close() }) // which ends accept
	l.running.Go(func() { l.accept(ctx) })
	return l, nil
}

func (l *link) accept(ctx context.Context) {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.to)
		if err != nil {
			_ = near.Close() // as if nobody listened
			continue
		}
		stop := context.AfterFunc(ctx, func() { _, _ = near.Close(), far.Close() })
		l.running.Go(func() {
			defer stop()
			l.carry(far, near, &l.toward)
		})
		l.running.Go(func() { l.carry(near, far, &l.back) })
	}
}

// carry bytes, and the end of the connection, when the gate lets them pass.
func (l *link) carry(to, from net.Conn, g *gate) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		g.wait(l.done)
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			_ = from.Close()
			return
		}
	}
}

func (l *link) cut(toward, back bool) {
	if toward {
		l.toward.shut()
	}
	if back {
		l.back.shut()
	}
}

func (l *link) mend() {
	l.toward.open()
	l.back.open()
}
