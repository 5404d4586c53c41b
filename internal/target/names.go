package target

import "k8s.io/apimachinery/pkg/labels"

// Labels of the Pods of a ModelDeployment.
const (
	NameLabel             = "app.kubernetes.io/name"
	InstanceLabel         = "app.kubernetes.io/instance"  // the deployment
	ComponentLabel        = "app.kubernetes.io/component" // the role
	RoleKindLabel         = "modeldeployment.gpustack.ai/role-kind"
	OrdinalLabel          = "modeldeployment.gpustack.ai/pod-ordinal"
	MemberLabel           = "modeldeployment.gpustack.ai/member-index"
	EndpointEligibleLabel = "modeldeployment.gpustack.ai/endpoint-eligible"
	RouterLabel           = "modeldeployment.gpustack.ai/router"
	QueueLabel            = "kueue.x-k8s.io/queue-name"
	PodGroupLabel         = "kueue.x-k8s.io/pod-group-name"
)

// NameValue is the value of NameLabel on every Pod of every ModelDeployment.
const NameValue = "model-deployment"

// Annotations of engine Pods that say where their metrics are.
const (
	ScrapeAnnotation = "prometheus.io/scrape"
	PortAnnotation   = "prometheus.io/port"
	PathAnnotation   = "prometheus.io/path"
	SchemeAnnotation = "prometheus.io/scheme"
)

// EngineContainer is the name of the container that runs the engine.
const EngineContainer = "main"

// Names of the Kueue API that says whether an instance has its quota.
const (
	WorkloadGroup    = "kueue.x-k8s.io"
	WorkloadVersion  = "v1beta2"
	WorkloadResource = "workloads"
)

// PodSelector selects the Pods of a deployment by its name. Router Pods match too, and Pods of an earlier deployment of the
// same name; Instances leaves both out.
func PodSelector(deployment string) labels.Selector {
	return labels.SelectorFromSet(labels.Set{NameLabel: NameValue, InstanceLabel: deployment})
}
