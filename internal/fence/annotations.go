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
