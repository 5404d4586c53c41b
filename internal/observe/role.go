package observe

import "time"

// RoleKey identifies a role of one deployment; a recreated deployment has another UID and so another key.
type RoleKey struct {
	Namespace, Deployment, UID, Role string
}

// String is the key as people write it: namespace/deployment/role.
func (k RoleKey) String() string { return k.Namespace + "/" + k.Deployment + "/" + k.Role }

// RoleKind is the part a role plays in serving. The zero value is a kind this program does not know (D22).
type RoleKind string

// The kinds, spelled as in ModelDeployment.spec.roles[].kind.
const (
	Server  RoleKind = "Server"
	Prefill RoleKind = "Prefill"
	Decode  RoleKind = "Decode"
	Encode  RoleKind = "Encode"
)

// Engine is an inference engine, recognised from what a Pod exposes. The zero value is none.
type Engine string

// The engines.
const (
	VLLM   Engine = "vLLM"
	SGLang Engine = "SGLang"
)

// SignalState says how far the readings of a role can be used (D12).
type SignalState string

// The states. Only the receiver of an observation can tell Stale.
const (
	Fresh   SignalState = "Fresh"
	Idle    SignalState = "Idle"
	Missing SignalState = "Missing"
	Stale   SignalState = "Stale"
)

// Assignment is all that a sampler has to know to observe one role.
type Assignment struct {
	Key    RoleKey
	Kind   RoleKind
	Engine string // as the deployment names it: a hint
	// Interval between two scrapes of one Pod.
	Interval time.Duration
	// ReadyReplicas in the snapshot that Pods was made from (D1).
	ReadyReplicas int
	// Pods that answer for the ready replicas, by ordinal, before the cap (D2).
	Pods []Pod
	// LastScrapeAge of the role by its previous owner; negative when not known (D4).
	LastScrapeAge time.Duration
}

// Pod is one engine endpoint.
type Pod struct {
	Name, UID string
	// Incarnation changes when the engine container restarts.
	Incarnation string
	Ordinal     int
	Address     string // IP
	Port        int
	Scheme      string // http or https
	Path        string
	Node        string
}
