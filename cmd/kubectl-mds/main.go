// kubectl-mds is the plugin of kubectl that explains what the scaler sees and does, most of it without a cluster.
package main

import (
	"os"

	"gpustack.ai/model-deployment-scaler/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
