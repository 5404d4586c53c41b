package decide

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// scenario is a policy test: a scaler, a target, what happens and what is expected of every pass. Unknown fields are errors.
type scenario struct {
	Name     string                               `json:"name"`
	Scaler   map[string]any                       `json:"scaler"`
	Status   workerv1.ModelDeploymentScalerStatus `json:"status"`
	Target   targetFile                           `json:"target"`
	Start    *time.Time                           `json:"start"`
	Every    int                                  `json:"every"`
	Until    int                                  `json:"until"`
	World    worldFile                            `json:"world"`
	Timeline []event                              `json:"timeline"`
	Expect   []expectation                        `json:"expect"`
	Always   always                               `json:"always"`
}

type targetFile struct {
	Roles []targetRole `json:"roles"`
}

type targetRole struct {
	Name         string  `json:"name"`
	Kind         *string `json:"kind"`
	Replicas     int32   `json:"replicas"`
	Size         int32   `json:"size"`
	InstanceType string  `json:"instanceType"`
}

type worldFile struct {
	Admit  delay          `json:"admit"`
	Ready  delay          `json:"ready"`
	Retire delay          `json:"retire"`
	Pools  map[string]int `json:"pools"`
}

// delay in seconds; "never" is as good as for ever.
type delay float64

func (d *delay) UnmarshalJSON(data []byte) error {
	if string(data) == `"never"` {
		*d = delay(math.Inf(1))
		return nil
	}
	return json.Unmarshal(data, (*float64)(d))
}

type event struct {
	At              int                        `json:"at"`
	Observe         map[string]json.RawMessage `json:"observe"`
	Admit           []string                   `json:"admit"`
	Evict           []string                   `json:"evict"`
	Retirement      *retirementFile            `json:"retirement"`
	WorkloadGone    []string                   `json:"workloadGone"`
	Scaler          map[string]any             `json:"scaler"`
	Target          map[string]any             `json:"target"`
	TargetDeleted   bool                       `json:"targetDeleted"`
	TargetRecreated *targetFile                `json:"targetRecreated"`
	Restart         bool                       `json:"restart"`
	RestartLost     bool                       `json:"restartLost"`
	Conflict        bool                       `json:"conflict"`
	Clock           float64                    `json:"clock"`
}

type retirementFile struct {
	Role       string `json:"role"`
	Ordinal    int    `json:"ordinal"`
	State      string `json:"state"`
	Generation *int64 `json:"generation"`
}

// reading is what is observed of a role; it lasts until the next event changes it.
type reading struct {
	Running    float64  `json:"running"`
	Waiting    float64  `json:"waiting"`
	Prompt     float64  `json:"prompt"`
	Generation float64  `json:"generation"`
	TTFT       *float64 `json:"ttft"`
	ITL        *float64 `json:"itl"`
	KV         float64  `json:"kv"`
	Ready      *int     `json:"ready"`
	Answered   *int     `json:"answered"`
	Rated      *bool    `json:"rated"`
	Down       bool     `json:"down"`
}

type expectation struct {
	At            *int                       `json:"at"`
	Within        []int                      `json:"within"`
	During        []int                      `json:"during"`
	Roles         map[string]roleExpectation `json:"roles"`
	Commit        *vectorOrNone              `json:"commit"`
	Conditions    map[string]string          `json:"conditions"`
	Pending       *pendingOrNone             `json:"pending"`
	Rebalance     *rebalanceOrNone           `json:"rebalance"`
	LastScaleDown *scaleDownFile             `json:"lastScaleDown"`
	Predictor     map[string]predictorFile   `json:"predictor"`
	StatusWrite   *bool                      `json:"statusWrite"`
}

type roleExpectation struct {
	Current     *countRange `json:"current"`
	Ready       *countRange `json:"ready"`
	Raw         *countRange `json:"raw"`
	Constrained *countRange `json:"constrained"`
	Reason      *oneOf      `json:"reason"`
	State       *oneOf      `json:"state"`
}

type scaleDownFile struct {
	Role    string `json:"role"`
	Ordinal int32  `json:"ordinal"`
	Outcome string `json:"outcome"`
}

type predictorFile struct {
	Level       *float64 `json:"level"`
	Trend       *float64 `json:"trend"`
	SampleCount *int64   `json:"sampleCount"`
	Tolerance   float64  `json:"tolerance"`
}

type always struct {
	MaxCommits *int                  `json:"maxCommits"`
	Roles      map[string]countRange `json:"roles"`
}

// countRange is exact, or a range.
type countRange struct {
	Min *int32 `json:"min"`
	Max *int32 `json:"max"`
}

func (n *countRange) UnmarshalJSON(data []byte) error {
	var exact int32
	if json.Unmarshal(data, &exact) == nil {
		n.Min, n.Max = &exact, &exact
		return nil
	}
	type fields countRange
	return strict(data, (*fields)(n))
}

func (n *countRange) holds(got int32) bool {
	return (n.Min == nil || got >= *n.Min) && (n.Max == nil || got <= *n.Max)
}

type oneOf []string

func (o *oneOf) UnmarshalJSON(data []byte) error {
	var single string
	if json.Unmarshal(data, &single) == nil {
		*o = oneOf{single}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(o))
}

type vectorOrNone map[string]int32

func (v *vectorOrNone) UnmarshalJSON(data []byte) error {
	if string(data) == `"none"` {
		*v = vectorOrNone{}
		return nil
	}
	return json.Unmarshal(data, (*map[string]int32)(v))
}

type pendingOrNone struct {
	Baseline map[string]int32 `json:"baseline"`
	Target   map[string]int32 `json:"target"`
}

func (p *pendingOrNone) UnmarshalJSON(data []byte) error {
	if string(data) == `"none"` {
		return nil
	}
	type fields pendingOrNone
	return strict(data, (*fields)(p))
}

type rebalanceOrNone struct {
	Reason   string `json:"reason"`
	Donor    string `json:"donor"`
	Receiver string `json:"receiver"`
}

func (r *rebalanceOrNone) UnmarshalJSON(data []byte) error {
	if string(data) == `"none"` {
		return nil
	}
	type fields rebalanceOrNone
	return strict(data, (*fields)(r))
}

func strict(data []byte, into any) error {
	return yaml.UnmarshalStrict(data, into)
}

func readScenario(path string) (*scenario, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a scenario: %w", err)
	}
	s := &scenario{}
	if err := yaml.UnmarshalStrict(data, s); err != nil {
		return nil, fmt.Errorf("reading scenario %s: %w", path, err)
	}
	if _, err := specOf(s.Scaler); err != nil {
		return nil, fmt.Errorf("reading scenario %s: %w", path, err)
	}
	return s, nil
}

// specOf is the spec in a file, Active unless it says otherwise.
func specOf(fields map[string]any) (workerv1.ModelDeploymentScalerSpec, error) {
	spec := workerv1.ModelDeploymentScalerSpec{Mode: workerv1.ModeActive}
	data, err := json.Marshal(fields)
	if err != nil {
		return spec, err
	}
	return spec, strict(data, &spec)
}

// merge is a merge patch in which lists of roles merge by name.
func merge(into, patch map[string]any) {
	for key, value := range patch {
		switch value := value.(type) {
		case map[string]any:
			if old, ok := into[key].(map[string]any); ok {
				merge(old, value)
				continue
			}
		case []any:
			if old, ok := into[key].([]any); ok && key == "roles" {
				into[key] = mergeByName(old, value)
				continue
			}
		case nil:
			delete(into, key)
			continue
		}
		into[key] = value
	}
}

func mergeByName(old, patch []any) []any {
	for _, item := range patch {
		name := item.(map[string]any)["name"]
		at := slices.IndexFunc(old, func(o any) bool { return o.(map[string]any)["name"] == name })
		if at < 0 {
			old = append(old, item)
			continue
		}
		merge(old[at].(map[string]any), item.(map[string]any))
	}
	return old
}

// last is the time of the last pass.
func (s *scenario) last() int {
	last := s.Until
	for _, e := range s.Timeline {
		last = max(last, e.At)
	}
	for _, e := range s.Expect {
		if e.At != nil {
			last = max(last, *e.At)
		}
		for _, at := range append(e.Within, e.During...) {
			last = max(last, at)
		}
	}
	return last
}

func splitOrdinal(name string) (role string, ordinal int, err error) {
	role, number, found := strings.Cut(name, "/")
	if !found {
		return "", 0, fmt.Errorf("%q is not role/ordinal", name)
	}
	_, err = fmt.Sscanf(number, "%d", &ordinal)
	return role, ordinal, err
}
