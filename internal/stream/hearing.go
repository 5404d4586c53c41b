package stream

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// longestSilence of a connection that lives: both ends ping after keepaliveTime, and the answer is late after
// keepaliveTimeout. In between nothing is left but a half-open connection.
const longestSilence = keepaliveTime + keepaliveTimeout/2

// hearing notes when bytes last arrived from the other end: pings count, which the messages of a session do not show.
type hearing struct {
	born time.Time
	last atomic.Int64 // nanoseconds since born
}

// over lets dial (nil: the network's) make connections that are listened to.
func (h *hearing) over(dial func(context.Context, string) (net.Conn, error)) func(context.Context, string) (net.Conn, error) {
	if dial == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return &heardConn{Conn: conn, hearing: h}, nil
	}
}

// lost is since when the other end is to be counted as lost, of a session that ends now.
func (h *hearing) lost(now time.Time) time.Time {
	heard := h.born.Add(time.Duration(h.last.Load()))
	if now.Sub(heard) > longestSilence {
		return heard
	}
	return now
}

type heardConn struct {
	net.Conn
	hearing *hearing
}

func (c *heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.hearing.last.Store(int64(time.Since(c.hearing.born)))
	}
	return n, err
}
