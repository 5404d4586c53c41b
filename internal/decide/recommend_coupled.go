package decide

import "math"

// follow sizes a role without a target of its own from its partners' recommendations (D21): by the target ratio, the largest
// where there are several, otherwise to the count nearest to its own that the bands allow. What holds a partner holds it.
func (p *pass) follow(r *role) recommendation {
	rec := recommendation{raw: r.Replicas, reason: ReasonRatioCoupled, blind: true}
	var preferred, allowed int32
	for i := range p.bands {
		b := &p.bands[i]
		partner := p.role(b.partnerOf(r.Name))
		if partner == nil || !p.algorithm.sizes(partner) {
			continue
		}
		rec.partial = rec.partial || partner.partial
		rec.young = rec.young || partner.young
		if partner.hold != "" {
			rec.hold = partner.hold
		}
		if partner.blind {
			continue
		}
		rec.blind = false
		preferred = max(preferred, b.preferred(r.Name, partner.raw))
		allowed = max(allowed, b.nearest(r.Name, r.Replicas, partner.raw))
	}
	switch {
	case rec.blind:
		rec.hold = ReasonRatioCoupled
	case preferred > 0:
		rec.raw = preferred
	case allowed > 0:
		rec.raw = allowed
	}
	return rec
}

// partnerOf is the other end of the ratio; empty when the role is at neither.
func (b *band) partnerOf(role string) string {
	switch role {
	case b.numerator:
		return b.denominator
	case b.denominator:
		return b.numerator
	}
	return ""
}

// preferred is the count of role that the target ratio asks for beside the partner's; 0 without a target ratio.
func (b *band) preferred(role string, partner int32) int32 {
	if !b.target.there {
		return 0
	}
	x := float64(partner) * b.target.approximate
	if role == b.denominator {
		x = float64(partner) / b.target.approximate
	}
	return replicas(x * (1 - ratioSlack))
}

// nearest is the count of role nearest to current that the band allows beside the partner's.
func (b *band) nearest(role string, current, partner int32) int32 {
	low, high := b.min, b.max
	scale := float64(partner)
	at := func(l limit) float64 { return scale * l.approximate }
	if role == b.denominator {
		low, high = b.max, b.min
		at = func(l limit) float64 { return scale / l.approximate }
	}
	count := current
	if high.there {
		count = min(count, max(1, int32(math.Min(math.MaxInt32, math.Floor(at(high)*(1+ratioSlack)+ceilingSlack)))))
	}
	if low.there {
		count = max(count, replicas(at(low)*(1-ratioSlack)))
	}
	return count
}
