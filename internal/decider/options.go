package decider

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/uuid"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/process"
)

// Options of the decider.
type Options struct {
	Kubeconfig string
	APIVersion string
	QPS        float32
	Burst      int
	Workers    int

	Identity      string
	Namespace     string
	LeaseName     string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration

	SamplerSelector   string
	SamplerPort       int
	SamplerAddresses  []string
	SamplerServerName string
	// TLS names all three files; without them certificates are kept in Secrets in Namespace.
	TLS                   certs.Files
	CertificateSettleTime time.Duration
	InsecureLoopback      bool

	ServingOptions
}

// NewOptions are the defaults.
func NewOptions() *Options {
	return &Options{
		QPS: 100, Burst: 200, Workers: 16,
		Namespace: os.Getenv("POD_NAMESPACE"), LeaseName: "decider",
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second,
		SamplerSelector: "app.kubernetes.io/name=model-deployment-scaler,app.kubernetes.io/component=sampler",
		SamplerPort:     9443, SamplerServerName: "sampler.model-deployment-scaler.svc",
		CertificateSettleTime: 5 * time.Minute,
		ServingOptions:        ServingOptions{GRPCAddress: ":9443", ServiceName: "decider.model-deployment-scaler.svc"},
	}
}

// identity of this start. Two starts of one Pod are two candidates.
func (o *Options) identity() string {
	if o.Identity != "" {
		return o.Identity
	}
	name := os.Getenv("POD_NAME")
	if name == "" {
		name, _ = os.Hostname()
	}
	return name + "_" + string(uuid.NewUUID())
}

// Groups are the flags.
func (o *Options) Groups() []process.FlagGroup {
	return []process.FlagGroup{
		{Title: "Cluster", Flags: o.clusterFlags()},
		{Title: "Leader election", Flags: o.electionFlags()},
		{Title: "Samplers", Flags: o.samplerFlags()},
		{Title: "Observations", Flags: o.flags()},
	}
}

func (o *Options) clusterFlags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Kubeconfig `file`. Default: $KUBECONFIG, else the service account of the Pod.")
	fs.StringVar(&o.APIVersion, "api-version", o.APIVersion, "Version of worker.gpustack.ai to use, v1 or v1alpha1. Default: the first that serves both ModelDeployment and ModelDeploymentScaler.")
	fs.Float32Var(&o.QPS, "kube-api-qps", o.QPS, "Requests per second to the API server, on average.")
	fs.IntVar(&o.Burst, "kube-api-burst", o.Burst, "Requests to the API server at once.")
	fs.IntVar(&o.Workers, "workers", o.Workers, "Scalers that are planned at the same time.")
	return fs
}

func (o *Options) electionFlags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("election", pflag.ContinueOnError)
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "Namespace of the Lease and of the samplers. Default: $POD_NAMESPACE.")
	fs.StringVar(&o.Identity, "identity", o.Identity, "Name of this copy as holder of the Lease; no two copies may share one. Default: $POD_NAME, else the host name, and a random part.")
	fs.StringVar(&o.LeaseName, "lease-name", o.LeaseName, "Name of the Lease that the leader holds.")
	fs.DurationVar(&o.LeaseDuration, "lease-duration", o.LeaseDuration, "How long a leader that is not heard of is waited for. Must be the same for all copies.")
	fs.DurationVar(&o.RenewDeadline, "lease-renew-deadline", o.RenewDeadline, "When a leader that cannot renew the Lease gives up; less than --lease-duration, and the difference is the longest a write may take.")
	fs.DurationVar(&o.RetryPeriod, "lease-retry-period", o.RetryPeriod, "Wait between two tries to get or renew the Lease.")
	return fs
}

func (o *Options) samplerFlags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("samplers", pflag.ContinueOnError)
	fs.StringVar(&o.SamplerSelector, "sampler-selector", o.SamplerSelector, "Labels of the sampler Pods in --namespace.")
	fs.IntVar(&o.SamplerPort, "sampler-port", o.SamplerPort, "gRPC port of the sampler Pods.")
	fs.StringSliceVar(&o.SamplerAddresses, "sampler-addresses", o.SamplerAddresses, "host:port of every sampler, instead of looking for Pods.")
	fs.StringVar(&o.SamplerServerName, "sampler-server-name", o.SamplerServerName, "Name that the certificates of samplers are verified for.")
	fs.StringVar(&o.TLS.Cert, "tls-cert-file", o.TLS.Cert, "Certificate `file` (PEM) that the samplers and those who watch are shown. Reloaded when it changes. Without it the leader makes the certificates of deciders and samplers, and keeps them in the Secrets "+authoritySecret+", "+deciderSecret+" and "+samplerSecret+" in --namespace.")
	fs.StringVar(&o.TLS.Key, "tls-key-file", o.TLS.Key, "Key `file` (PEM) of --tls-cert-file.")
	fs.StringVar(&o.TLS.CA, "tls-ca-file", o.TLS.CA, "Authorities (PEM `file`) that the certificates of samplers and of other copies are verified with.")
	fs.DurationVar(&o.CertificateSettleTime, "certificate-settle-time", o.CertificateSettleTime, "Without --tls-cert-file: how long kubelets may take to bring a changed Secret to the files of samplers. A new authority signs when it has been published for so long, and the old one is trusted for at least as long afterwards.")
	fs.BoolVar(&o.InsecureLoopback, "insecure-loopback", o.InsecureLoopback, "Talk to samplers and serve observations without TLS and to everybody on this machine, for development: every address of --sampler-addresses, and --grpc-address, must be a loopback one.")
	return fs
}

// Validate returns everything that is wrong.
func (o *Options) Validate() error {
	return errors.Join(o.validateCluster(), o.validateElection(), o.validateSamplers(), o.validate(o.InsecureLoopback))
}

func (o *Options) validateCluster() error {
	var errs []error
	if o.APIVersion != "" && !slices.Contains(workerv1.Versions, o.APIVersion) {
		errs = append(errs, fmt.Errorf("--api-version: %q is none of %v", o.APIVersion, workerv1.Versions))
	}
	if o.QPS <= 0 {
		errs = append(errs, fmt.Errorf("--kube-api-qps: %v is not above 0", o.QPS))
	}
	if o.Burst < 1 {
		errs = append(errs, fmt.Errorf("--kube-api-burst: %d is not above 0", o.Burst))
	}
	if o.Workers < 1 || o.Workers > 1000 {
		errs = append(errs, fmt.Errorf("--workers: %d is not 1 to 1000", o.Workers))
	}
	return errors.Join(errs...)
}

func (o *Options) validateElection() error {
	errs := []error{process.Require("--namespace", o.Namespace, ""), process.Require("--lease-name", o.LeaseName, "")}
	if o.RetryPeriod < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("--lease-retry-period: %s is under 100ms", o.RetryPeriod))
	}
	if o.RenewDeadline < 2*o.RetryPeriod {
		errs = append(errs, fmt.Errorf("--lease-renew-deadline: %s is under twice --lease-retry-period (%s)", o.RenewDeadline, o.RetryPeriod))
	}
	if o.LeaseDuration < o.RenewDeadline+time.Second {
		errs = append(errs, fmt.Errorf("--lease-duration: %s is under --lease-renew-deadline (%s) plus 1s", o.LeaseDuration, o.RenewDeadline))
	}
	if o.LeaseDuration%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--lease-duration: %s is not in whole seconds, as a Lease keeps it", o.LeaseDuration))
	}
	return errors.Join(errs...)
}

func (o *Options) validateSamplers() error {
	var errs []error
	if _, err := labels.Parse(o.SamplerSelector); err != nil || o.SamplerSelector == "" && len(o.SamplerAddresses) == 0 {
		errs = append(errs, fmt.Errorf("--sampler-selector: %q is not a label selector", o.SamplerSelector))
	}
	if o.SamplerPort < 1 || o.SamplerPort > 65535 {
		errs = append(errs, fmt.Errorf("--sampler-port: %d is not 1 to 65535", o.SamplerPort))
	}
	for _, address := range o.SamplerAddresses {
		if err := process.CheckAddress(address); err != nil {
			errs = append(errs, fmt.Errorf("--sampler-addresses: %w", err))
		}
	}
	if o.InsecureLoopback {
		return errors.Join(append(errs, o.validateLoopback())...)
	}
	return errors.Join(append(errs, o.validateCertificates(),
		process.Require("--sampler-server-name", o.SamplerServerName, ", or --insecure-loopback for development"))...)
}

func (o *Options) validateLoopback() error {
	if len(o.SamplerAddresses) == 0 {
		return errors.New("--insecure-loopback: give the samplers with --sampler-addresses")
	}
	for _, address := range o.SamplerAddresses {
		if !process.IsLoopback(address) {
			return fmt.Errorf("--insecure-loopback: %s is not a loopback address", address)
		}
	}
	return nil
}
