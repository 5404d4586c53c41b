package stream

import (
	"context"
	"errors"
	"io"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// link is the decider's end of one session: one goroutine listens, one tells.
type link struct {
	pool   *Pool
	stream grpc.BidiStreamingClient[observationv1.SessionRequest, observationv1.SessionResponse]
	shard  Shard         // Replayed is guarded by pool.mu
	wake   chan struct{} // has a token when there may be something to tell

	complained bool // of the listener: an observation was refused

	// Of the teller.
	sent     []observe.Assignment
	revision int64
}

// listen hands over what the sampler says until the session ends; nil when the sampler ended it in order.
func (l *link) listen() error {
	for {
		m, err := l.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		l.take(m, time.Now())
	}
}

func (l *link) take(m *observationv1.SessionResponse, at time.Time) {
	switch m := m.GetMessage().(type) {
	case *observationv1.SessionResponse_Observation:
		o, err := DecodeObservation(m.Observation)
		if err != nil {
			l.refuse(err)
			return
		}
		l.pool.metrics.received.Inc()
		l.pool.options.OnObservation(l.shard.Name, o, at)
	case *observationv1.SessionResponse_Replay:
		r, err := DecodeReplay(m.Replay)
		if err != nil {
			l.refuse(err)
			return
		}
		l.pool.metrics.received.Add(float64(r.Len()))
		l.pool.options.OnReplay(l.shard.Name, r, at)
	case *observationv1.SessionResponse_ReplayComplete:
		l.pool.replayed(l)
	case *observationv1.SessionResponse_Draining:
		l.pool.options.Log.Info("told that a sampler drains", zap.String("shard", l.shard.Name), zap.String("reason", m.Draining.GetReason()))
		l.pool.retire(l, Departure{Final: true, At: at})
	}
}

// refuse counts what cannot be read and logs the first of a session.
func (l *link) refuse(err error) {
	l.pool.metrics.refused.WithLabelValues(refusedObservation).Inc()
	if !l.complained {
		l.complained = true
		l.pool.options.Log.Warn("refused an observation; more of this session are only counted", zap.String("shard", l.shard.Name), zap.Error(err))
	}
}

// replayed marks the shard's replay as complete.
func (p *Pool) replayed(l *link) {
	p.mu.Lock()
	l.shard.Replayed = true
	p.mu.Unlock()
	p.options.OnChange()
}

// tell sends the sampler what it is to own whenever that changes, until ctx ends, the stream ends or the sampler drains.
func (l *link) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		want, named, draining := l.pool.wantedOf(l)
		if draining {
			_ = l.stream.CloseSend() // never fails; the sampler answers by ending the stream
			return
		}
		if named && l.assign(want) != nil {
			return // the stream ended: listen knows why
		}
	}
}

// wantedOf says what l is to own, whether Assign has named it, and whether it drains.
func (p *Pool) wantedOf(l *link) (want owned, named, draining bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	want, named = p.wanted[l.shard.Name]
	return want, named, p.live[l.shard.Name] != l
}

// assign sends the difference to what was sent before: at first, everything.
func (l *link) assign(want owned) error {
	upserts, removals := difference(l.sent, want.roles)
	first := l.revision == 0
	if !first && len(upserts)+len(removals) == 0 {
		return nil
	}
	l.revision++
	a := Assign{Revision: l.revision, Full: first, Upserts: aged(upserts, time.Since(want.at)), Removals: removals}
	messages, tooLarge := parts(a)
	for _, key := range tooLarge {
		l.pool.metrics.refused.WithLabelValues(refusedRole).Inc()
		l.pool.options.Log.Error("left a role unobserved: its Pods do not fit a message", zap.Stringer("role", key))
	}
	for _, m := range messages {
		if err := l.stream.Send(&observationv1.SessionRequest{Message: &observationv1.SessionRequest_Assign{Assign: m}}); err != nil {
			return err
		}
	}
	l.sent = want.roles
	return nil
}

// aged copies roles with their ages as of by later.
func aged(roles []observe.Assignment, by time.Duration) []observe.Assignment {
	list := make([]observe.Assignment, len(roles))
	for i, r := range roles {
		if r.LastScrapeAge >= 0 {
			r.LastScrapeAge += by
		}
		list[i] = r
	}
	return list
}
