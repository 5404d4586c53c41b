package webhook

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/process"
)

// Options of the webhook.
type Options struct {
	Kubeconfig string
	APIVersion string

	HTTPSAddress string
	// TLS names Cert and Key; without them certificates are made, and kept in a Secret in Namespace, the Pod's own.
	TLS       certs.Files
	Namespace string

	DeciderUsername string
	LeaseNamespace  string
	LeaseName       string

	// Not flags: how long a new authority is known before it signs, and how long to serve after the signal.
	settle, linger time.Duration
}

// NewOptions are the defaults; the namespace is the Pod's own.
func NewOptions() *Options {
	namespace := os.Getenv("POD_NAMESPACE")
	o := &Options{HTTPSAddress: ":8443", Namespace: namespace, LeaseNamespace: namespace, LeaseName: "decider",
		settle: settleTime, linger: lingerTime}
	if namespace != "" {
		o.DeciderUsername = "system:serviceaccount:" + namespace + ":decider"
	}
	return o
}

// selfManaged says that the webhook makes its certificates itself.
func (o *Options) selfManaged() bool { return o.TLS == certs.Files{} }

// Groups are the flags.
func (o *Options) Groups() []process.FlagGroup {
	return []process.FlagGroup{
		{Title: "Serving", Flags: o.servingFlags()},
		{Title: "Fence", Flags: o.fenceFlags()},
		{Title: "Cluster", Flags: o.clusterFlags()},
	}
}

func (o *Options) servingFlags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("serving", pflag.ContinueOnError)
	fs.StringVar(&o.HTTPSAddress, "https-address", o.HTTPSAddress, "`host:port` on which admission reviews are answered; an empty host means all interfaces.")
	fs.StringVar(&o.TLS.Cert, "tls-cert-file", o.TLS.Cert, "Certificate `file` (PEM) for the name that the webhook configurations call. Reloaded when it changes. Without it the webhook makes its certificates itself, keeps them in the Secret "+secretName+" in $POD_NAMESPACE, and writes caBundle of the webhook configurations named "+configurationName+".")
	fs.StringVar(&o.TLS.Key, "tls-key-file", o.TLS.Key, "Key `file` (PEM) of --tls-cert-file.")
	return fs
}

func (o *Options) fenceFlags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("fence", pflag.ContinueOnError)
	fs.StringVar(&o.DeciderUsername, "decider-username", o.DeciderUsername, "The one `user` who may write counts of bound deployments. Default: the service account decider in $POD_NAMESPACE.")
	fs.StringVar(&o.LeaseNamespace, "lease-namespace", o.LeaseNamespace, "Namespace of the Lease that says which decider leads. Default: $POD_NAMESPACE.")
	fs.StringVar(&o.LeaseName, "lease-name", o.LeaseName, "Name of that Lease.")
	return fs
}

func (o *Options) clusterFlags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Kubeconfig `file`. Default: $KUBECONFIG, else the service account of the Pod.")
	fs.StringVar(&o.APIVersion, "api-version", o.APIVersion, "Version of worker.gpustack.ai to read, v1 or v1alpha1. Default: the first that serves both ModelDeployment and ModelDeploymentScaler.")
	return fs
}

// Validate returns everything that is wrong.
func (o *Options) Validate() error {
	errs := []error{
		o.validateTLS(),
		process.Require("--decider-username", o.DeciderUsername, ""),
		process.Require("--lease-namespace", o.LeaseNamespace, ""),
		process.Require("--lease-name", o.LeaseName, ""),
	}
	if err := process.CheckAddress(o.HTTPSAddress); err != nil {
		errs = append(errs, fmt.Errorf("--https-address: %w", err))
	}
	if o.APIVersion != "" && !slices.Contains(workerv1.Versions, o.APIVersion) {
		errs = append(errs, fmt.Errorf("--api-version: %q is none of %v", o.APIVersion, workerv1.Versions))
	}
	return errors.Join(errs...)
}

func (o *Options) validateTLS() error {
	if o.selfManaged() && o.Namespace == "" {
		return fmt.Errorf("--tls-cert-file: must be given with --tls-key-file outside of a Pod; certificates of its own are kept in a Secret in $POD_NAMESPACE, which is not set")
	}
	if err := o.TLS.Validate(); err != nil {
		return fmt.Errorf("--tls-cert-file, --tls-key-file: %w", err)
	}
	return nil
}
