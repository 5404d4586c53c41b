// The webhook answers the API server's admission reviews: defaults and validation of ModelDeploymentScalers, and the fence
// around the replica counts of bound ModelDeployments. It runs in two or more copies, all of which serve.
package main

import (
	"context"
	"os"

	"gpustack.ai/model-deployment-scaler/internal/process"
	"gpustack.ai/model-deployment-scaler/internal/webhook"
)

const long = `The webhook answers admission reviews of the API server over HTTPS: it fills in and validates
ModelDeploymentScalers, and refuses writes to replica counts and scaler annotations of a bound ModelDeployment by
anybody but the decider. Run two copies or more: all of them serve, none keeps state. In a Pod it makes its
certificates itself, unless files are named.

Example, against the cluster of $KUBECONFIG:
  webhook --https-address 127.0.0.1:8443 --tls-cert-file tls.crt --tls-key-file tls.key \
    --lease-namespace default --decider-username system:serviceaccount:default:decider`

func main() {
	options := webhook.NewOptions()
	os.Exit(process.Main(process.Spec{
		Name:     "webhook",
		Short:    "Admit ModelDeploymentScalers and fence bound ModelDeployments.",
		Long:     long,
		Groups:   options.Groups(),
		Validate: options.Validate,
		Run: func(ctx context.Context, p *process.Process) error {
			return webhook.Run(ctx, p, options)
		},
	}))
}
