package target

import (
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// Names of the foreign API.
const (
	GroupName = "worker.gpustack.ai"
	Kind      = "ModelDeployment"
	Resource  = "modeldeployments"
)

// Deployment is a ModelDeployment as far as scaling needs it.
type Deployment struct {
	Namespace, Name, UID string
	Generation           int64
	ResourceVersion      string
	Deleting             bool
	Annotations          map[string]string
	Engine               string // spec.engine.name, as written
	Roles                []Role // in spec order
	Retirement           *Retirement
}

// Role is one entry of spec.roles.
type Role struct {
	Name string
	// Kind is empty when the deployment names one that this program does not know (D22); an empty kind there means Server.
	Kind         observe.RoleKind
	Replicas     int32
	Size         int32 // Pods per serving instance
	InstanceType string
	Unmanaged    bool // spec.roles[].command is set
	ElasticEP    bool // spec.roles[].elasticEp is set
}

// Instance is one serving instance: the Pods of a role with one ordinal (D1).
type Instance struct {
	Role    string
	Ordinal int
	// Ready: all members exist, are Ready and not terminating.
	Ready bool
	// Admission of the instance's Workload, or of its Pods where Kueue does not gate the role (D29, D60).
	Admission Admission
	// Pods that are sampled when the instance is ready: its leader, and members marked endpoint-eligible.
	Endpoints []observe.Pod
}

// Admission says whether an instance has its quota.
type Admission string

// The admissions. An instance without a Workload yet is pending, not refused (D29).
const (
	AdmissionPending Admission = "Pending"
	AdmissionGranted Admission = "Granted"
)

// Retirement is status.retirement: how the owner of the deployment says that it is removing an instance.
type Retirement struct {
	Role               string
	Ordinal            int
	State              RetirementState
	ObservedGeneration int64
	StartedAt          time.Time
	WorkloadUID        string // of the instance that goes; may be empty
	Reason             string
}

// RetirementState is a step of the retirement protocol.
type RetirementState string

// The steps. Completed is never stored: a finished retirement disappears.
const (
	RetirementAdmitted     RetirementState = "Admitted"
	RetirementDisqualified RetirementState = "Disqualified"
	RetirementWithdrawing  RetirementState = "Withdrawing"
	RetirementDraining     RetirementState = "Draining"
	RetirementDeleting     RetirementState = "Deleting"
	RetirementSettling     RetirementState = "Settling"
	RetirementAborted      RetirementState = "Aborted"
	RetirementCompleted    RetirementState = "Completed"
)

// Running says that the retirement is under way.
func (r *Retirement) Running() bool {
	return r != nil && r.State != RetirementAborted && r.State != RetirementCompleted
}

// Snapshot is a deployment with its instances, taken from one view of the cluster, so that coverage and capacity agree (D1).
type Snapshot struct {
	Deployment
	// Instances by role and ordinal, removed ordinals that still have a Pod or a Workload included.
	Instances []Instance
}
