package process

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker in released builds.
var version string

// Version says which build this is: the released version, else the module version or revision that the Go toolchain noted.
func Version() string {
	v, revision := version, ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if v == "" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	if len(revision) > 12 {
		v += "+" + revision[:12]
	}
	return fmt.Sprintf("%s (%s, %s/%s)", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
