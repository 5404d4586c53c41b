// Package v1 holds the ModelDeploymentScaler API (group worker.gpustack.ai) as Go types.
//
// The comments on the fields are what `kubectl explain mds` prints: they speak to the person who writes the manifest, and
// give unit, default, range and effect. The markers make the CustomResourceDefinition under manifests/crds with its
// schema, defaults and CEL rules (`make generate`); hack/crd adds the rules that hold for every quantity. The same types
// serve the versions v1 and v1alpha1 (D49).
//
// What needs the target or arithmetic over several objects (kinds of roles, feasible ratios) is checked by the webhook.
//
// The package is vocabulary: it imports nothing of this module.
//
// +kubebuilder:object:generate=true
// +groupName=worker.gpustack.ai
package v1
