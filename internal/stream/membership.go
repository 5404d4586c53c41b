package stream

import (
	"maps"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// rememberDeparture is how long a departure is told of.
const rememberDeparture = time.Minute

// join makes the shard live, unless another member has its name.
func (p *Pool) join(l *link) error {
	p.mu.Lock()
	if _, taken := p.live[l.shard.Name]; taken {
		p.mu.Unlock()
		p.metrics.refused.WithLabelValues(refusedShard).Inc()
		return status.Errorf(codes.AlreadyExists, "another sampler is shard %s already: give each a --shard-name of its own", l.shard.Name)
	}
	p.links[l] = struct{}{}
	p.live[l.shard.Name] = l
	delete(p.departed, l.shard.Name)
	p.metrics.live.Set(float64(len(p.live)))
	signal(l.wake)
	p.mu.Unlock()
	p.options.OnChange()
	return nil
}

// leave forgets the session.
func (p *Pool) leave(l *link, why Departure) {
	p.retire(l, why)
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// retire takes the shard out of Live, and remembers why.
func (p *Pool) retire(l *link, why Departure) {
	p.mu.Lock()
	wasLive := p.live[l.shard.Name] == l
	if wasLive {
		delete(p.live, l.shard.Name)
		maps.DeleteFunc(p.departed, func(_ string, d Departure) bool { return why.At.Sub(d.At) > rememberDeparture })
		p.departed[l.shard.Name] = why
	}
	p.metrics.live.Set(float64(len(p.live)))
	p.mu.Unlock()
	if wasLive {
		p.options.OnChange()
	}
}
