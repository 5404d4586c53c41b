package decide

import (
	"fmt"
	"math/bits"

	"k8s.io/apimachinery/pkg/api/resource"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// ratioSlack is the relative slack of ratio bands (D28): a Quantity keeps nine decimals and rounds up, so that a third written
// as 0.333333334 must still allow 1:3. As an integer it is one part in slackParts.
const (
	ratioSlack = 1e-8
	slackParts = 100_000_000
	nanoParts  = 1_000_000_000
)

// band is one entry of spec.ratios: numerator / denominator within [min, max], target preferred.
type band struct {
	numerator, denominator string
	min, target, max       limit
}

// limit is one of a band's ratios, when there is one: in billionths as the quantity has them, and as a float where exactness does not matter.
type limit struct {
	there       bool
	nanos       uint64
	approximate float64
}

func bandsOf(ratios []workerv1.Ratio) []band {
	bands := make([]band, 0, len(ratios))
	for i := range ratios {
		r := &ratios[i]
		bands = append(bands, band{r.NumeratorRole, r.DenominatorRole, limitOf(r.Min), limitOf(r.Target), limitOf(r.Max)})
	}
	return bands
}

// limitOf is no limit for what is not there or not positive. No ratio of two counts comes near the largest limit kept.
func limitOf(q *resource.Quantity) limit {
	if q == nil || q.Sign() <= 0 {
		return limit{}
	}
	if f := q.AsApproximateFloat64(); f < nanoParts {
		return limit{there: true, nanos: uint64(q.ScaledValue(resource.Nano)), approximate: f}
	}
	return limit{there: true, nanos: nanoParts * nanoParts, approximate: nanoParts}
}

// allows says whether the two counts lie within the band, exactly but for the slack.
func (b *band) allows(numerator, denominator int32) bool {
	return b.atLeast(numerator, denominator) && b.atMost(numerator, denominator)
}

func (b *band) atLeast(numerator, denominator int32) bool {
	return !b.min.there || !scaled(numerator).less(product(b.min.nanos, slackParts-1, counted(denominator)))
}

func (b *band) atMost(numerator, denominator int32) bool {
	return !b.max.there || !product(b.max.nanos, slackParts+1, counted(denominator)).less(scaled(numerator))
}

func scaled(count int32) wide { return product(counted(count), nanoParts, slackParts) }

func counted(count int32) uint64 { return uint64(max(0, count)) }

// String is the band as people read it: "prefill/decode within [0.5, 2]".
func (b *band) String() string {
	low, high := "0", "no limit"
	if b.min.there {
		low = fmt.Sprintf("%.9g", b.min.approximate)
	}
	if b.max.there {
		high = fmt.Sprintf("%.9g", b.max.approximate)
	}
	return fmt.Sprintf("%s/%s within [%s, %s]", b.numerator, b.denominator, low, high)
}

// wide is an unsigned number of 128 bits.
type wide struct{ hi, lo uint64 }

// product of three numbers whose bits together are under 128.
func product(a, b, c uint64) wide {
	hi, lo := bits.Mul64(a, b)
	carry, lo := bits.Mul64(lo, c)
	return wide{hi*c + carry, lo}
}

func (w wide) less(v wide) bool { return w.hi < v.hi || w.hi == v.hi && w.lo < v.lo }

// violated is the first band that the vector breaks; nil when there is none. Bands of roles that the target does not have
// bind nobody.
func violated(bands []band, vector workerv1.Vector) *band {
	for i := range bands {
		b := &bands[i]
		n, known := vector[b.numerator]
		d, both := vector[b.denominator]
		if known && both && !b.allows(n, d) {
			return b
		}
	}
	return nil
}
