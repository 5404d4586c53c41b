// The decider plans every ModelDeploymentScaler and writes the replica counts of their targets. It runs in two or more
// copies, of which the holder of a Lease works and the others stand by.
package main

import (
	"context"
	"os"

	"gpustack.ai/model-deployment-scaler/internal/decider"
	"gpustack.ai/model-deployment-scaler/internal/process"
)

const long = `The decider plans every ModelDeploymentScaler: it tells the samplers which engines to read, turns their
observations into replica counts and writes those to the ModelDeployments that it is bound to. Run two copies or
more: the holder of the Lease works, the others stand by.

Example, against the cluster of $KUBECONFIG and one local sampler:
  decider --namespace default --insecure-loopback --sampler-addresses 127.0.0.1:9443 --grpc-address 127.0.0.1:9444`

func main() {
	options := decider.NewOptions()
	os.Exit(process.Main(process.Spec{
		Name:     "decider",
		Short:    "Plan ModelDeploymentScalers and write replica counts.",
		Long:     long,
		Groups:   options.Groups(),
		Validate: options.Validate,
		Run: func(ctx context.Context, p *process.Process) error {
			return decider.Run(ctx, p, options)
		},
	}))
}
