// The sampler scrapes inference engines and streams what it observed to the decider.
package main

import (
	"context"
	"os"

	"gpustack.ai/model-deployment-scaler/internal/process"
	"gpustack.ai/model-deployment-scaler/internal/sampler"
)

func main() {
	o := sampler.NewOptions()
	os.Exit(process.Main(process.Spec{
		Name:  "sampler",
		Short: "Scrapes inference engines and streams observations.",
		Long: `The sampler reads the metrics of the vLLM and SGLang Pods that the decider assigns to it, turns counters into
rates, and streams one observation per role and interval. It has no access to Kubernetes.

Example:
  sampler --grpc-address=:9443 --tls-cert-file=/etc/mds/tls/tls.crt --tls-key-file=/etc/mds/tls/tls.key \
    --tls-ca-file=/etc/mds/tls/ca.crt`,
		Groups:   o.Groups(),
		Validate: o.Validate,
		Run:      func(ctx context.Context, p *process.Process) error { return sampler.Run(ctx, p, o) },
	}))
}
