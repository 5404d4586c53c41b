package sim

import (
	"slices"
	"strings"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// dialect is the engine of that name, compared without regard to case; vLLM for names that are not known.
func dialect(engine string) observe.Engine {
	if strings.EqualFold(engine, string(observe.SGLang)) {
		return observe.SGLang
	}
	return observe.VLLM
}

// transit is a request on its way to a stage.
type transit struct {
	Request
	stage observe.RoleKind
}

// serve lets the requests of a deployment go on to a time: new ones come in, engines work, finished ones go to the next stage.
func (w *World) serve(d *deployment, to float64) {
	waiting := d.transit
	d.transit = nil
	for _, t := range waiting {
		d.forward(t)
	}
	if d.traffic != nil {
		for _, r := range d.traffic.Arrivals(nil, w.now-d.since, to-d.since) {
			r.Born += d.since
			d.totals.Arrived++
			d.forward(transit{r, d.next("")})
		}
	}
	for _, i := range d.instances {
		if i.engine == nil {
			continue
		}
		i.engine.Advance(to)
		for _, r := range i.engine.Take() {
			d.passOn(r, i.kind())
		}
	}
}

// passOn a request that a stage has finished.
func (d *deployment) passOn(r Request, done observe.RoleKind) {
	stage := d.next(done)
	if stage == "" {
		d.totals.Finished++
		return
	}
	d.forward(transit{r, stage})
}

// forward gives a request to the least loaded instance of its stage, or keeps it until there is one.
func (d *deployment) forward(t transit) {
	i := d.leastLoaded(t.stage)
	if i == nil {
		d.transit = append(d.transit, t)
		return
	}
	i.engine.Advance(t.Born)
	i.engine.Submit(t.Request)
}

// stages in the order in which a request passes them.
var stages = []observe.RoleKind{observe.Server, observe.Encode, observe.Prefill, observe.Decode}

// next stage after one; the first after none. Empty when the request is finished. A request of a Server is finished.
func (d *deployment) next(after observe.RoleKind) observe.RoleKind {
	if after == observe.Server {
		return ""
	}
	for _, stage := range stages[slices.Index(stages, after)+1:] {
		for _, role := range d.spec.Roles {
			if kindOf(role.Kind) == stage {
				return stage
			}
		}
	}
	return ""
}

func (d *deployment) leastLoaded(stage observe.RoleKind) *instance {
	var pick *instance
	for _, i := range d.instances {
		if i.eligible && i.kind() == stage && (pick == nil || i.engine.Load() < pick.engine.Load()) {
			pick = i
		}
	}
	return pick
}

func (i *instance) kind() observe.RoleKind { return kindOf(i.role.Kind) }

// kindOf treats a kind that is not known like a Server.
func kindOf(kind observe.RoleKind) observe.RoleKind {
	if slices.Contains(stages, kind) {
		return kind
	}
	return observe.Server
}
