package fence

// Annotations of a ModelDeployment that belong to its scaler (spec "Binding fence").
const (
	BindingAnnotation  = "modeldeployment.gpustack.ai/scaler-binding"
	DecisionAnnotation = "modeldeployment.gpustack.ai/scaler-decision"
)

// Binding names the owner of a deployment's counts.
type Binding struct {
	ScalerName string `json:"scalerName"`
	ScalerUID  string `json:"scalerUID"`
	Term       int64  `json:"term"` // from 1
}

// Decision is the latest committed vector.
type Decision struct {
	DecisionID string           `json:"decisionID"` // <epoch>.<sequence>.<kind>, see DecisionID
	Term       int64            `json:"term"`
	Vector     map[string]int32 `json:"vector"` // count by role
}

// Epoch identifies a leadership: the Lease and its leaseTransitions (D52).
type Epoch struct {
	LeaseUID    string
	Transitions int64
}

// CommitKind is the last part of a decision ID.
type CommitKind string

// The kinds of commit (D52).
const (
	CommitUp       CommitKind = "up"
	CommitDown     CommitKind = "down"
	CommitRollback CommitKind = "rollback"
	CommitRestore  CommitKind = "restore"
	CommitDonate   CommitKind = "donate"
	CommitAcquire  CommitKind = "acquire"
)

// DecisionID is the parsed form of a decision's identity: "<lease uid, first 8 characters>-<transitions>.<sequence>.<kind>".
type DecisionID struct {
	Epoch    string // as Epoch.String writes it
	Sequence int64  // grows by one with every commit of a scaler
	Kind     CommitKind
}
