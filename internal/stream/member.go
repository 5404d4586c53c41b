package stream

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// A lost session is tried again after 100 to 200 ms, then twice that, up to 2.5 to 5 s.
	backoffFirst = 200 * time.Millisecond
	backoffMax   = 5 * time.Second
	// A session that lived this long was a good one: the next backoff starts anew.
	settled = 10 * time.Second
	// A sampler that a newer leader has taken over is asked again after 15 to 30 s: only its restart changes its mind.
	deposedRetry = 30 * time.Second
	// First attempts are spread: 5 ms a member, at most 1 s.
	spreadEach = 5 * time.Millisecond
	spreadMax  = time.Second
)

func firstSpread(members int) time.Duration {
	return min(time.Duration(members)*spreadEach, spreadMax)
}

// backoff says how long to wait before attempt, from 0: half of it certain, half by chance.
func backoff(attempt int) time.Duration {
	return jitter(min(backoffFirst<<min(attempt, 10), backoffMax))
}

func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2) //nolint:gosec // chance, not a secret
}

// keep holds a session to m, one after the other, until ctx ends. The first attempt comes within spread.
func (p *Pool) keep(ctx context.Context, m Member, spread time.Duration) {
	reporter := &reporter{log: p.options.Log.With(zap.String("member", m.Name), zap.String("address", m.Address)), deposed: p.metrics.deposed}
	defer reporter.forget()
	wait := rand.N(max(spread, 1)) //nolint:gosec // chance, not a secret
	for attempt := 0; pause(ctx, wait); attempt++ {
		lived, err := p.session(ctx, m, reporter)
		if ctx.Err() != nil {
			return
		}
		p.metrics.ended.WithLabelValues(status.Code(err).String()).Inc()
		reporter.ended(err)
		if lived >= settled {
			attempt = 0
		}
		wait = backoff(attempt)
		if status.Code(err) == codes.FailedPrecondition {
			wait = jitter(deposedRetry)
		}
	}
}

// pause waits for d and says whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// reporter logs a member's changes of state, not its states: a sampler that stays away is one line.
type reporter struct {
	log     *zap.Logger
	deposed prometheus.Gauge
	last    codes.Code // OK: connected, or never tried
}

func (r *reporter) opened(shard Shard) {
	r.become(codes.OK)
	r.log.Info("opened a session", zap.String("shard", shard.Name), zap.String("node", shard.Node), zap.String("version", shard.Version))
}

func (r *reporter) ended(err error) {
	code := status.Code(err)
	switch code {
	case codes.OK:
		r.log.Info("closed a session: the sampler has drained")
	case r.last: // said before
	case codes.FailedPrecondition:
		r.log.Error("deposed: a sampler follows another leader", zap.Error(err))
	default:
		r.log.Warn("has no session with a sampler, trying again", zap.Error(err))
	}
	r.become(code)
}

func (r *reporter) forget() { r.become(codes.OK) }

func (r *reporter) become(code codes.Code) {
	was, is := r.last == codes.FailedPrecondition, code == codes.FailedPrecondition
	r.last = code
	if is && !was {
		r.deposed.Add(1)
	}
	if was && !is {
		r.deposed.Add(-1)
	}
}
