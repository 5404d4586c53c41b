package component

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics, as the released programs have
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// Named returns the component that answers to a first argument; it runs to
// its end and returns the exit code.
func Named(name string) (run func(args []string) int, ok bool) {
	switch name {
	case "control-plane":
		return runControlPlane, true
	case "controller-manager":
		return runControllerManager, true
	case "kubectl":
		return runKubectl, true
	default:
		return nil, false
	}
}

// runControlPlane runs etcd and kube-apiserver in one process. The first
// argument is etcd's configuration file, the rest are kube-apiserver's flags.
// etcd outlives the API server, which on SIGTERM answers what is in flight.
func runControlPlane(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "control-plane: the first argument must be etcd's configuration file")
		return 2
	}
	etcd, err := startEtcd(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer etcd.Close()
	return runKubernetes(apiserver.NewAPIServerCommand(), args[1:])
}

func runControllerManager(args []string) int {
	return runKubernetes(controllermanager.NewControllerManagerCommand(), args)
}

func runKubernetes(command *cobra.Command, args []string) int {
	setVersion()
	command.SetArgs(args)
	return cli.Run(command)
}
