package decide

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// Input is everything one planning pass may know. Plan keeps none of it.
type Input struct {
	// Now is the process's start time plus monotonic elapsed time (D58).
	Now time.Time
	// Live says that the scaler's status and the target were read from the API server for this pass, not from a watch cache.
	// It is needed only after a Decision that asked to Reread (D33, D43).
	Live bool
	// Epoch of the leader that plans.
	Epoch fence.Epoch
	// Scaler is the policy, with defaults filled in.
	Scaler Scaler
	// Target is the deployment with its instances; nil when there is none.
	Target *target.Snapshot
	// Observations are the latest of each role, by role name; Age as of Now. A role without one is absent.
	Observations map[string]observe.RoleObservation
	// State is the planner's memory: what the previous pass returned, or what StateFromStatus made of the stored status.
	State State
}

// Scaler is the planned scaler's identity and policy.
type Scaler struct {
	Namespace, Name, UID string
	Generation           int64
	Deleting             bool
	Spec                 workerv1.ModelDeploymentScalerSpec
}

// Decision is what one pass decided. At most one of Commit, Bind alone and Release is to be written.
type Decision struct {
	// State is the memory after the pass, as if nothing had been written; Settle adds what a write changes.
	State State
	// Bind is the binding to install; with Commit in the same write.
	Bind *fence.Binding
	// Release asks for the removal of this scaler's own binding; counts stay.
	Release bool
	// Commit is the vector to write; nil when counts stay.
	Commit *Commit
	// Adopted is a commit that an earlier leader wrote and did not record (D33), perhaps not tell of either; nil: none.
	Adopted *Commit
	// Trace is, by role, the count after each stage and the rule that changed it.
	Trace map[string][]Step
	// Hold says in one sentence why nothing is planned at all; empty when a plan was made.
	Hold string
	// Reread asks for the same pass once more on a live view: the cached one is older than the last commit (D43), or shows a
	// decision that nobody here knows (D33). Nothing is to be written.
	Reread bool

	bound []metav1.Condition // the conditions once Bind is on the target
}

// Commit is one write of replica counts.
type Commit struct {
	// Decision is the annotation: identity, term and the count of every role.
	Decision fence.Decision
	Kind     fence.CommitKind
	// Baseline is the count of every role before.
	Baseline map[string]int32
	// Why is one sentence for events and logs.
	Why string

	cooldown  time.Duration              // after an aborted removal, for CommitRestore
	exhausted *workerv1.ExhaustionStatus // the episode that a CommitRollback begins or goes on with
	rebalance *workerv1.RebalanceStatus  // the transfer as it stands after the write; nil leaves it alone
}

// Outcome says what became of a Decision's write.
type Outcome struct {
	// Written is true when the API server accepted it.
	Written bool
	// Generation of the target that the write's answer carried.
	Generation int64
	// At is the time of the answer, on the planner's clock.
	At time.Time
}

// Step is one stage of a role's plan.
type Step struct {
	Stage    string // see the Stage constants
	Replicas int32  // count after it
	Rule     string // what acted; empty when the stage changed nothing
}

// State is the planner's memory of one scaler. It maps one to one to the scaler's status (StateFromStatus, State.Status);
// only rates and windows are finer here than there. It is a value: Plan returns a new one and never changes the old.
type State struct {
	ObservedGeneration int64
	Binding            Binding
	Roles              []RoleState // in the order of the target's spec
	LastCommit         *workerv1.CommitStatus
	PendingCohort      *workerv1.PendingCohort
	Rebalance          *workerv1.RebalanceStatus
	LastScaleDown      *workerv1.ScaleDownStatus
	Exhaustion         *workerv1.ExhaustionStatus
	Predictors         []Predictor // in the order of the target's spec
	Conditions         []metav1.Condition
}

// Binding is the target that the scaler knows.
type Binding struct {
	TargetUID, TargetName string
	Term                  int64 // 0: never bound
}

// RoleState is what is remembered and reported of one role.
type RoleState struct {
	Name            string
	Current, Ready  int32
	Signal          observe.SignalState
	Observed        observe.RoleObservation // the latest; zero when none
	Raw             int32
	Constrained     int32
	Reason          string
	LastScaleUpTime time.Time
	PanicUntil      time.Time
	History         windows.History // recommendations, oldest first, at most 256 (D25)
}

// Predictor is the demand history of a role and, for Predictive, its filter.
type Predictor struct {
	Name string
	// Level in tokens per second, Trend in tokens per second each second.
	Level, Trend float64
	// Covariance of the two, symmetric: P00 of the level, P11 of the trend.
	P00, P01, P11 float64
	// Samples that the filter has taken in.
	Samples int64
	// History of demand, in tokens per second, oldest first, at most 256.
	History windows.Average
}
