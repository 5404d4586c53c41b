package component

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // what kubeconfig files may name
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// runKubectl is kubectl. It reads the process's arguments by itself (for
// plugins and kuberc), so those are made to look like kubectl's.
func runKubectl(args []string) int {
	setVersion()
	os.Args = append([]string{"kubectl"}, args...)
	// Plugin look-up logs while the command is being built, before flags are
	// parsed. A level that is no number is reported by the parsing itself.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints as kubectl does and exits with its code
		return 1
	}
	return 0
}
