package scenario

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// none is the word for "there must be nothing".
const none = "none"

// Delay is in seconds; never is +Inf.
type Delay float64

// UnmarshalYAML reads a number or "never".
func (d *Delay) UnmarshalYAML(n *yaml.Node) error {
	if n.Value == "never" {
		*d = Delay(math.Inf(1))
		return nil
	}
	var seconds float64
	if n.Decode(&seconds) != nil || !(seconds >= 0) {
		return wrong(n, "%q is no time in seconds, nor never", n.Value)
	}
	*d = Delay(seconds)
	return nil
}

// Range is what a count may be; a bare number allows itself alone.
type Range struct {
	Min *int32 `yaml:"min"`
	Max *int32 `yaml:"max"`
}

// UnmarshalYAML reads a number or {min, max}.
func (r *Range) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		var exact int32
		if n.Decode(&exact) != nil {
			return wrong(n, "%q is neither a count nor {min, max}", n.Value)
		}
		r.Min, r.Max = &exact, &exact
		return nil
	}
	type fields Range
	return strictly(n, (*fields)(r), "min", "max")
}

func (r *Range) allows(got int32) bool {
	return (r.Min == nil || got >= *r.Min) && (r.Max == nil || got <= *r.Max)
}

func (r *Range) String() string {
	switch {
	case r.Min != nil && r.Max != nil && *r.Min == *r.Max:
		return strconv.Itoa(int(*r.Min))
	case r.Min != nil && r.Max != nil:
		return fmt.Sprintf("%d to %d", *r.Min, *r.Max)
	case r.Min != nil:
		return fmt.Sprintf("at least %d", *r.Min)
	case r.Max != nil:
		return fmt.Sprintf("at most %d", *r.Max)
	}
	return "any count"
}

// OneOf lists what is allowed.
type OneOf []string

// UnmarshalYAML reads one word or a list.
func (o *OneOf) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*o = OneOf{n.Value}
		return nil
	}
	return n.Decode((*[]string)(o))
}

func (o OneOf) String() string { return strings.Join(o, " or ") }

// Vector is the count of every role; an empty one stands for none.
type Vector map[string]int32

// UnmarshalYAML reads a vector or "none".
func (v *Vector) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Value == none {
		*v = Vector{}
		return nil
	}
	return n.Decode((*map[string]int32)(v))
}

func (v Vector) String() string {
	if len(v) == 0 {
		return none
	}
	parts := make([]string, 0, len(v))
	for role, count := range v {
		parts = append(parts, fmt.Sprintf("%s: %d", role, count))
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, ", ") + "}"
}

// Pending is a growth that waits for admission; empty for none.
type Pending struct {
	Baseline Vector `yaml:"baseline"`
	Target   Vector `yaml:"target"`
}

// UnmarshalYAML reads {baseline, target} or "none".
func (p *Pending) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Value == none {
		return nil
	}
	type fields Pending
	return strictly(n, (*fields)(p), "baseline", "target")
}

func (p Pending) String() string {
	if len(p.Target) == 0 {
		return none
	}
	return fmt.Sprintf("from %s to %s", p.Baseline, p.Target)
}

// Rebalance is a transfer of capacity; empty for none. A role that is not given is not checked.
type Rebalance struct {
	Reason   string `yaml:"reason"`
	Donor    string `yaml:"donor"`
	Receiver string `yaml:"receiver"`
}

// UnmarshalYAML reads {reason, donor, receiver} or "none".
func (r *Rebalance) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Value == none {
		return nil
	}
	type fields Rebalance
	return strictly(n, (*fields)(r), "reason", "donor", "receiver")
}

func (r Rebalance) String() string {
	switch {
	case r == Rebalance{}:
		return none
	case r.Donor == "" && r.Receiver == "":
		return r.Reason
	}
	return fmt.Sprintf("%s from %q to %q", r.Reason, r.Donor, r.Receiver)
}

// Binding is the text of the binding annotation; the word none removes it.
type Binding string

// UnmarshalYAML reads {scalerName, scalerUID, term}, or any text as it is.
func (b *Binding) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*b = Binding(n.Value)
		return nil
	}
	var fields struct {
		ScalerName string `yaml:"scalerName"`
		ScalerUID  string `yaml:"scalerUID"`
		Term       int64  `yaml:"term"`
	}
	if err := strictly(n, &fields, "scalerName", "scalerUID", "term"); err != nil {
		return err
	}
	text, err := json.Marshal(fence.Binding(fields)) // also a binding that the fence would refuse
	*b = Binding(text)
	return err
}

// Reading is what is observed of a role: totals over the sampled replicas.
type Reading struct {
	Running    float64  `yaml:"running"`    // requests
	Waiting    float64  `yaml:"waiting"`    // requests
	Prompt     float64  `yaml:"prompt"`     // tokens per second, cache-missed
	Generation float64  `yaml:"generation"` // tokens per second
	TTFT       *float64 `yaml:"ttft"`       // milliseconds; nil is missing
	ITL        *float64 `yaml:"itl"`        // milliseconds; nil is missing
	KV         float64  `yaml:"kv"`         // fraction
	Ready      *int     `yaml:"ready"`      // replicas, whatever the world says
	Answered   *int     `yaml:"answered"`   // replicas; nil is all
	Rated      *bool    `yaml:"rated"`      // false: no rates yet
	Down       bool     `yaml:"down"`       // no observation arrives

	node *yaml.Node
}

// UnmarshalYAML reads the fields that change; Parse fills in the others from the reading before.
func (r *Reading) UnmarshalYAML(n *yaml.Node) error {
	r.node = n
	return r.change(n)
}

// change reads the fields that are given. What it points to is its own: a reading before it stays as it was.
func (r *Reading) change(n *yaml.Node) error {
	type fields Reading
	r.TTFT, r.ITL, r.Ready, r.Answered, r.Rated = own(r.TTFT), own(r.ITL), own(r.Ready), own(r.Answered), own(r.Rated)
	return strictly(n, (*fields)(r), "running", "waiting", "prompt", "generation", "ttft", "itl", "kv", "ready", "answered", "rated", "down")
}

func own[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// strictly decodes a mapping that has these fields and no others.
func strictly(n *yaml.Node, into any, fields ...string) error {
	if n.Kind != yaml.MappingNode {
		return wrong(n, "%q is not {%s}", n.Value, strings.Join(fields, ", "))
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains(fields, key.Value) {
			return wrong(key, "unknown field %q; there are %s", key.Value, strings.Join(fields, ", "))
		}
	}
	return n.Decode(into)
}

// wrong is a mistake at a place of the file.
func wrong(n *yaml.Node, format string, args ...any) error {
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %s", n.Line, fmt.Sprintf(format, args...))}}
}
