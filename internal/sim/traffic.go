package sim

import "math"

// Traffic is what clients send to one deployment.
type Traffic interface {
	// Arrivals appends to dst the requests of the span (from, to], seconds since the traffic began, in order of arrival;
	// Born is on the same clock. The same span always brings the same requests, however it is cut.
	Arrivals(dst []Request, from, to float64) []Request
}

// Point of a profile: the rate of requests per second at a time in seconds.
type Point struct{ At, Rate float64 }

// Profile is traffic whose rate goes in straight lines from point to point, and stays at the last one's. Two points at one
// time make a step. Arrivals are evenly spaced at a given rate; sizes spread over half to one and a half of the means.
type Profile struct {
	Points []Point // ascending in time
	// Prompt and Output are mean tokens of a request.
	Prompt, Output int
	// Repeat begins again at the end of the last point.
	Repeat bool
}

// Constant traffic.
func Constant(rate float64, prompt, output int) Profile {
	return Profile{Points: []Point{{0, rate}}, Prompt: prompt, Output: output}
}

// Ramp goes from one rate to another within seconds, and stays there.
func Ramp(from, to, seconds float64, prompt, output int) Profile {
	return Profile{Points: []Point{{0, from}, {seconds, to}}, Prompt: prompt, Output: output}
}

// Burst is a base rate with a higher one between two times.
func Burst(base, peak, start, end float64, prompt, output int) Profile {
	points := []Point{{0, base}, {start, base}, {start, peak}, {end, peak}, {end, base}}
	return Profile{Points: points, Prompt: prompt, Output: output}
}

// Day swings between a low rate at its beginning and a high one at its middle, again and again.
func Day(low, high, seconds float64, prompt, output int) Profile {
	const parts = 48
	p := Profile{Prompt: prompt, Output: output, Repeat: true}
	for i := range parts + 1 {
		phase := float64(i) / parts
		rate := low + (high-low)*(1-math.Cos(2*math.Pi*phase))/2
		p.Points = append(p.Points, Point{phase * seconds, rate})
	}
	return p
}

// Arrivals implements Traffic: request number k arrives when the integral of the rate reaches k.
func (p Profile) Arrivals(dst []Request, from, to float64) []Request {
	first, last := p.total(from), p.total(to)
	for k := math.Floor(first) + 1; k <= last; k++ {
		dst = append(dst, Request{Prompt: spread(p.Prompt, k*0.6180339887), Output: spread(p.Output, k*0.7548776662), Born: p.when(k, from, to)})
	}
	return dst
}

// Rate of requests per second at a time.
func (p Profile) Rate(at float64) float64 {
	if span := p.span(); p.Repeat && span > 0 {
		at = math.Mod(at, span)
	}
	return p.rate(at)
}

// spread gives sizes around a mean, evenly over [0.5, 1.5), by the fractional part of x.
func spread(mean int, x float64) int {
	return max(1, int(math.Round(float64(mean)*(0.5+x-math.Floor(x)))))
}

// when finds the time within (from, to] at which total reaches k.
func (p Profile) when(k, from, to float64) float64 {
	for range 40 {
		if middle := (from + to) / 2; p.total(middle) < k {
			from = middle
		} else {
			to = middle
		}
	}
	return to
}

// total is the number of requests sent until a time, fractions included.
func (p Profile) total(at float64) float64 {
	span := p.span()
	if !p.Repeat || span <= 0 {
		return p.integral(at)
	}
	rounds := math.Floor(at / span)
	return rounds*p.integral(span) + p.integral(at-rounds*span)
}

func (p Profile) span() float64 {
	if len(p.Points) == 0 {
		return 0
	}
	return p.Points[len(p.Points)-1].At
}

func (p Profile) integral(at float64) float64 {
	sum := 0.0
	for i, point := range p.Points {
		if at <= point.At {
			break
		}
		end := at
		if i+1 < len(p.Points) {
			end = math.Min(at, p.Points[i+1].At)
		}
		sum += (end - point.At) * (p.on(i, point.At) + p.on(i, end)) / 2
	}
	return sum
}

func (p Profile) rate(at float64) float64 {
	rate := 0.0
	for i, point := range p.Points {
		if at >= point.At {
			rate = p.on(i, at)
		}
	}
	return rate
}

// on is the rate on the line that begins at point i.
func (p Profile) on(i int, at float64) float64 {
	this := p.Points[i]
	if i+1 == len(p.Points) {
		return this.Rate
	}
	next := p.Points[i+1]
	if next.At <= this.At {
		return this.Rate
	}
	return this.Rate + (next.Rate-this.Rate)*math.Min(1, (at-this.At)/(next.At-this.At))
}
