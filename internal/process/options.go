package process

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
)

// options are the flags that every binary has.
type options struct {
	adminAddress string
	logLevel     string
	logFormat    string
	profiling    bool
}

func newOptions() *options {
	return &options{adminAddress: ":8080", logLevel: "info", logFormat: "json"}
}

func (o *options) group() FlagGroup {
	fs := pflag.NewFlagSet("process", pflag.ContinueOnError)
	fs.StringVar(&o.adminAddress, "admin-address", o.adminAddress, "Host:port of /livez, /readyz, /metrics and, to loopback peers alone, PUT /loglevel.")
	fs.StringVar(&o.logLevel, "log-level", o.logLevel, "Least level that is logged: debug, info, warn or error. Changeable at run time: curl -X PUT -d level=debug localhost:8080/loglevel.")
	fs.StringVar(&o.logFormat, "log-format", o.logFormat, "Format of log lines: json, or console for people.")
	fs.BoolVar(&o.profiling, "enable-profiling", o.profiling, "Serve /debug/pprof/ on the admin address, to loopback peers alone.")
	return FlagGroup{Title: "Process", Flags: fs}
}

func (o *options) validate() error {
	var errs []error
	if err := CheckAddress(o.adminAddress); err != nil {
		errs = append(errs, fmt.Errorf("--admin-address: %w", err))
	}
	if _, err := zapcore.ParseLevel(o.logLevel); err != nil {
		errs = append(errs, fmt.Errorf("--log-level: %q is none of debug, info, warn, error", o.logLevel))
	}
	if o.logFormat != "json" && o.logFormat != "console" {
		errs = append(errs, fmt.Errorf("--log-format: %q is neither json nor console", o.logFormat))
	}
	return errors.Join(errs...)
}

// CheckAddress refuses what cannot be listened on: host:port with a numeric port; the host may be empty.
func CheckAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not host:port, for example :8080 or 127.0.0.1:8080", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q has no usable port: give 0 (any free) to 65535", address)
	}
	return nil
}

// Require refuses a flag that was left empty; instead says what else could be given.
func Require(flag, value, instead string) error {
	if value != "" {
		return nil
	}
	return fmt.Errorf("%s: must be given%s", flag, instead)
}

// IsLoopback says whether host:port names a loopback address; an empty host or a name other than localhost does not.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

func printHelp(w io.Writer, spec Spec, groups []FlagGroup) {
	fmt.Fprintf(w, "%s\n\nUsage:\n  %s [flags]\n", strings.TrimSpace(spec.Long), spec.Name)
	for _, g := range groups {
		fmt.Fprintf(w, "\n%s:\n%s", g.Title, g.Flags.FlagUsagesWrapped(110))
	}
	fmt.Fprint(w, "\nOther:\n  -h, --help      This text.\n  -v, --version   Version of the program.\n")
}
