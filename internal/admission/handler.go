package admission

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admission/v1"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Paths that the webhook configurations name.
const (
	MutateScalerPath   = "/mutate-modeldeploymentscaler"
	ValidateScalerPath = "/validate-modeldeploymentscaler"
	FencePath          = "/validate-modeldeployment"
)

// Cluster is what admission reads: live, never from a cache, and within the context's deadline.
type Cluster interface {
	// Target of that name; nil when there is none.
	Target(ctx context.Context, namespace, name string) (*target.Deployment, error)
	// Scaler of that name; nil when there is none.
	Scaler(ctx context.Context, namespace, name string) (*fence.Scaler, error)
	// Epoch of the decider's Lease (D52).
	Epoch(ctx context.Context) (fence.Epoch, error)
}

// Options of the handler.
type Options struct {
	// DeciderUser is the one user name whose writes pass the fence as the decider's (D38).
	DeciderUser string
	Cluster     Cluster
	Log         *zap.Logger
	Registerer  prometheus.Registerer
}

// New makes the handler of the three paths. Anything else is 404.
func New(o Options) http.Handler {
	m := newMetrics(o.Registerer)
	mux := http.NewServeMux()
	for path, judge := range map[string]judge{
		MutateScalerPath:   mutateScaler,
		ValidateScalerPath: scalerValidator{o.Cluster}.judge,
		FencePath:          fencer{o.Cluster, o.DeciderUser}.judge,
	} {
		mux.Handle(path, &endpoint{path: path[1:], judge: judge, log: o.Log, metrics: m})
	}
	return mux
}

// judge decides about one request.
type judge func(ctx context.Context, r *admissionv1.AdmissionRequest) verdict
