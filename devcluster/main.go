// Command devcluster is a control plane for development: etcd,
// kube-apiserver, kube-controller-manager and kubectl in one file.
package main

import (
	"os"

	"gpustack.ai/model-deployment-scaler/devcluster/internal/cluster"
	"gpustack.ai/model-deployment-scaler/devcluster/internal/component"

	"github.com/spf13/cobra"
)

func main() {
	// The components parse their own arguments, so they are chosen before
	// any flag is read.
	if len(os.Args) > 1 {
		if run, ok := component.Named(os.Args[1]); ok {
			os.Exit(run(os.Args[2:]))
		}
	}
	if err := command().Execute(); err != nil {
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "devcluster",
		Short: "A Kubernetes control plane for development, without nodes",
		Long: `A Kubernetes control plane for development, without nodes: real etcd,
kube-apiserver and kube-controller-manager on loopback addresses of their own.

"devcluster kubectl ..." is kubectl.`,
		SilenceUsage: true,
	}
	root.AddCommand(cluster.NewUpCommand(), component.NewVersionCommand())
	return root
}
