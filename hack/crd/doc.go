// Command crd makes the CustomResourceDefinition of ModelDeploymentScaler from the types in api/worker/v1. It runs in the
// root of the module (`make generate` does):
//
//	go run ./hack/crd
//
// controller-gen reads the types and their markers. This program adds what markers cannot say: a second version v1alpha1
// that is the first one under another name (D49), bounds on every quantity, and descriptions without line breaks, because
// `kubectl explain` wraps them itself. The same types give the same bytes. It is a development tool.
package main
