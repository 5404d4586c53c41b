package scenario

import (
	"time"

	"go.yaml.in/yaml/v3"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// Scenario is one policy test. Parse makes it from a file; times are seconds from its start.
type Scenario struct {
	Name string `yaml:"name"`
	// Scaler is the spec as written; Active and defaulted as by admission when it is used.
	Scaler map[string]any `yaml:"scaler"`
	// Status that the scaler starts from, as written.
	Status map[string]any `yaml:"status"`
	Target Target         `yaml:"target"`
	Start  time.Time      `yaml:"start"`
	// Every is the time between passes; the first is at 0, the last at or before Until.
	Every    int           `yaml:"every"`
	Until    *int          `yaml:"until"`
	World    World         `yaml:"world"`
	Timeline []Event       `yaml:"timeline"`
	Expect   []Expectation `yaml:"expect"`
	Always   Always        `yaml:"always"`

	file   string // where it came from, for positions
	root   *yaml.Node
	spec   workerv1.ModelDeploymentScalerSpec
	status workerv1.ModelDeploymentScalerStatus
}

// Target is a ModelDeployment as far as a scenario tells it.
type Target struct {
	Roles []Role `yaml:"roles"`
}

// Role is one entry of spec.roles of a ModelDeployment.
type Role struct {
	Name         string   `yaml:"name"`
	Kind         string   `yaml:"kind,omitempty"` // default Server
	Replicas     int32    `yaml:"replicas"`
	Size         int32    `yaml:"size,omitempty"` // default 1
	InstanceType string   `yaml:"instanceType,omitempty"`
	Command      []string `yaml:"command,omitempty"`
	ElasticEP    any      `yaml:"elasticEp,omitempty"`
}

// World says how the cluster follows commits.
type World struct {
	Admit  Delay `yaml:"admit"`  // from a growth to its admission
	Ready  Delay `yaml:"ready"`  // from admission to ready
	Retire Delay `yaml:"retire"` // from a removal to the end of its Pods and Workload
	// Pools are the replicas that each instanceType can hold.
	Pools map[string]int `yaml:"pools"`
}

// Event is what happens before the pass at its time. Observations last until they are changed; the rest happens once.
type Event struct {
	At int `yaml:"at"`

	// Observe is what is read of a role from now on.
	Observe map[string]Reading `yaml:"observe"`

	// Admit, Evict and WorkloadGone name instances as role/ordinal.
	Admit        []string    `yaml:"admit"`
	Evict        []string    `yaml:"evict"`
	WorkloadGone []string    `yaml:"workloadGone"`
	Retirement   *Retirement `yaml:"retirement"`

	// Scaler and Target are merge patches of the specs by somebody else.
	Scaler          map[string]any `yaml:"scaler"`
	Target          map[string]any `yaml:"target"`
	TargetDeleted   bool           `yaml:"targetDeleted"`
	TargetRecreated *Target        `yaml:"targetRecreated"`
	// Binding is somebody's annotation on the target.
	Binding *Binding `yaml:"binding"`

	// Restart is a new leader with the stored status alone; RestartLost one for whom the last status write never happened.
	Restart     bool `yaml:"restart"`
	RestartLost bool `yaml:"restartLost"`
	// Clock is the step of the wall clock in seconds, noticed at the next restart.
	Clock float64 `yaml:"clock"`
	// Conflict and StatusWriteFails spoil the writes of this pass, Stale lets its cache show the target of so many passes ago.
	Conflict         bool `yaml:"conflict"`
	StatusWriteFails bool `yaml:"statusWriteFails"`
	Stale            int  `yaml:"stale"`

	line int
}

// Retirement is what the owner of the target says about the removal of an instance.
type Retirement struct {
	Role    string `yaml:"role"`
	Ordinal int    `yaml:"ordinal"`
	// State is a state of the protocol, or Finished: Pods and record are gone.
	State string `yaml:"state"`
	// Generation of the target that it was made for; by default that of the moment.
	Generation *int64 `yaml:"generation"`
}

// Expectation is what must hold at one pass (At), at every pass of a stretch (During), or at some pass of a stretch and at
// none before it (Within). A field that is not given is not checked.
type Expectation struct {
	At     *int  `yaml:"at"`
	Within []int `yaml:"within"`
	During []int `yaml:"during"`

	Roles         map[string]RoleExpectation      `yaml:"roles"`
	Commit        *Vector                         `yaml:"commit"`
	Conditions    map[string]string               `yaml:"conditions"` // Status/Reason
	Pending       *Pending                        `yaml:"pending"`
	Rebalance     *Rebalance                      `yaml:"rebalance"`
	LastScaleDown *ScaleDown                      `yaml:"lastScaleDown"`
	Predictor     map[string]PredictorExpectation `yaml:"predictor"`
	StatusWrite   *bool                           `yaml:"statusWrite"`

	node *yaml.Node
}

// RoleExpectation is about one role. Current is the count that the pass planned on.
type RoleExpectation struct {
	Current     *Range `yaml:"current"`
	Ready       *Range `yaml:"ready"`
	Raw         *Range `yaml:"raw"`
	Constrained *Range `yaml:"constrained"`
	Reason      OneOf  `yaml:"reason"`
	State       OneOf  `yaml:"state"`
}

// ScaleDown is the latest removal. A field that is not given is not checked.
type ScaleDown struct {
	Role    string `yaml:"role"`
	Ordinal *int32 `yaml:"ordinal"`
	Outcome string `yaml:"outcome"`
}

// PredictorExpectation is about the filter of one role.
type PredictorExpectation struct {
	Level       *float64 `yaml:"level"`
	Trend       *float64 `yaml:"trend"`
	SampleCount *int64   `yaml:"sampleCount"`
	// Tolerance is absolute; without it 1e-6 of the value, and 1e-9 near zero.
	Tolerance float64 `yaml:"tolerance"`
}

// Always holds over all passes.
type Always struct {
	MaxCommits *int             `yaml:"maxCommits"`
	Roles      map[string]Range `yaml:"roles"` // of the count after every pass
}
