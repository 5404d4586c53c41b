// Package crds carries the CustomResourceDefinition of ModelDeploymentScaler into programs that judge scalers without an API
// server. It must not do anything with it. internal/crd calls it.
package crds

import _ "embed"

// Scalers is the definition as it is installed, in YAML.
//
//go:embed worker.gpustack.ai_modeldeploymentscalers.yaml
var Scalers []byte
