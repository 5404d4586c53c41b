package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Names of the API, as URLs, manifests and owner references spell them.
const (
	GroupName = "worker.gpustack.ai"
	Kind      = "ModelDeploymentScaler"
	Resource  = "modeldeploymentscalers"
)

// Versions are the served versions, preferred first; their schemas are identical (D49).
var Versions = []string{"v1", "v1alpha1"}

// SchemeGroupVersion is the storage version.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1"}

// AddToScheme registers the types under every served version.
func AddToScheme(s *runtime.Scheme) error {
	for _, version := range Versions {
		gv := schema.GroupVersion{Group: GroupName, Version: version}
		s.AddKnownTypes(gv, &ModelDeploymentScaler{}, &ModelDeploymentScalerList{})
		metav1.AddToGroupVersion(s, gv)
	}
	return nil
}
