package component

import (
	"fmt"
	"runtime"
	"runtime/debug"
	_ "unsafe" // go:linkname

	"github.com/spf13/cobra"
	"k8s.io/component-base/version"
)

// gitVersion is the version that Kubernetes programs report. Their own build
// sets it through the linker; a plain "go build" leaves a placeholder that
// clients cannot read as a version.
//
//go:linkname gitVersion k8s.io/component-base/version.gitVersion
var gitVersion string

// setVersion makes the components report the Kubernetes version that is
// linked in.
func setVersion() {
	linked := moduleVersion("k8s.io/kubernetes")
	if linked == "" {
		return
	}
	gitVersion = linked
	if err := version.SetDynamicVersion(linked); err != nil {
		panic(fmt.Sprintf("setting the Kubernetes version: %v", err)) // equal to gitVersion, hence always accepted
	}
}

// moduleVersion returns the version of a module of this binary, or "".
func moduleVersion(path string) string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range build.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return ""
}

// NewVersionCommand returns "devcluster version".
func NewVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of what is linked in",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "kubernetes %s\netcd %s\n%s\n",
				moduleVersion("k8s.io/kubernetes"), moduleVersion("go.etcd.io/etcd/server/v3"), runtime.Version())
		},
	}
}
