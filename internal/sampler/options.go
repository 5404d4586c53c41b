package sampler

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/process"
	"gpustack.ai/model-deployment-scaler/internal/scrape"
)

// Options are the flags of the sampler.
type Options struct {
	GRPCAddress        string
	TLS                certs.Files
	InsecureLoopback   bool
	DeciderIdentity    string
	ObserverIdentities []string

	ShardName         string
	NodeName          string
	CapacityPerSecond float64
	LeaderlessTimeout time.Duration

	ScrapeTimeout            time.Duration
	MaxScrapeBytes           resource.QuantityValue
	MaxPodsPerRole           int
	DataParallel             string
	EngineTLS                certs.Files
	EngineInsecureSkipVerify bool
	EngineBearerTokenFile    string
}

// NewOptions are the defaults; the names of shard and node come from the environment that the manifests set.
func NewOptions() *Options {
	host, _ := os.Hostname() // without a name --shard-name has to be given
	return &Options{
		GRPCAddress:       ":9443",
		DeciderIdentity:   "decider.model-deployment-scaler.svc",
		ShardName:         cmp.Or(os.Getenv("POD_NAME"), host),
		NodeName:          os.Getenv("NODE_NAME"),
		CapacityPerSecond: 200,
		LeaderlessTimeout: 10 * time.Minute,
		ScrapeTimeout:     3 * time.Second,
		MaxScrapeBytes:    resource.QuantityValue{Quantity: resource.MustParse("8Mi")},
		MaxPodsPerRole:    64,
		DataParallel:      string(scrape.Sum),
	}
}

// Groups are the flags as --help shows them.
func (o *Options) Groups() []process.FlagGroup {
	serving := pflag.NewFlagSet("serving", pflag.ContinueOnError)
	serving.StringVar(&o.GRPCAddress, "grpc-address", o.GRPCAddress, "Host:port that the decider connects to.")
	serving.StringVar(&o.TLS.Cert, "tls-cert-file", o.TLS.Cert, "PEM certificate of this server; waited for while it is not there, and reloaded when it changes.")
	serving.StringVar(&o.TLS.Key, "tls-key-file", o.TLS.Key, "PEM key of the certificate.")
	serving.StringVar(&o.TLS.CA, "tls-ca-file", o.TLS.CA, "PEM authorities of the certificates that callers present.")
	serving.StringVar(&o.DeciderIdentity, "decider-identity", o.DeciderIdentity, "DNS name in the certificate of the one caller that may assign roles.")
	serving.StringSliceVar(&o.ObserverIdentities, "observer-identities", o.ObserverIdentities, "DNS names in certificates that may watch observations of this shard.")
	serving.BoolVar(&o.InsecureLoopback, "insecure-loopback", o.InsecureLoopback, "Serve without TLS; --grpc-address must then be a loopback address.")

	shard := pflag.NewFlagSet("shard", pflag.ContinueOnError)
	shard.StringVar(&o.ShardName, "shard-name", o.ShardName, "Stable name of this sampler; $POD_NAME or the host name by default.")
	shard.StringVar(&o.NodeName, "node-name", o.NodeName, "Node that runs this sampler; $NODE_NAME by default.")
	shard.Float64Var(&o.CapacityPerSecond, "capacity-scrapes-per-second", o.CapacityPerSecond, "Scrapes per second that this sampler takes on.")
	shard.DurationVar(&o.LeaderlessTimeout, "leaderless-timeout", o.LeaderlessTimeout, "How long the last assignment is scraped on without a decider.")

	engines := pflag.NewFlagSet("engines", pflag.ContinueOnError)
	engines.DurationVar(&o.ScrapeTimeout, "scrape-timeout", o.ScrapeTimeout, "Time for one scrape in all; never more than half the sampling interval.")
	engines.Var(&o.MaxScrapeBytes, "max-scrape-bytes", "Largest exposition, after decompression.")
	engines.IntVar(&o.MaxPodsPerRole, "max-pods-per-role", o.MaxPodsPerRole, "Pods of one role that are scraped; with more, a role is observed in part and does not shrink.")
	engines.StringVar(&o.DataParallel, "data-parallel", o.DataParallel, "What counts of the independent engines behind one endpoint: sum, or rank-zero alone.")
	engines.StringVar(&o.EngineTLS.CA, "engine-ca-file", o.EngineTLS.CA, "PEM authorities of engines that serve HTTPS; the system's by default. Reloaded when it changes.")
	engines.StringVar(&o.EngineTLS.Cert, "engine-cert-file", o.EngineTLS.Cert, "PEM certificate for engines that ask callers for one; reloaded when it changes.")
	engines.StringVar(&o.EngineTLS.Key, "engine-key-file", o.EngineTLS.Key, "PEM key of that certificate.")
	engines.BoolVar(&o.EngineInsecureSkipVerify, "engine-tls-insecure-skip-verify", o.EngineInsecureSkipVerify, "Accept any certificate of an engine.")
	engines.StringVar(&o.EngineBearerTokenFile, "engine-bearer-token-file", o.EngineBearerTokenFile, "Token for engines with an API key; sent over verified HTTPS only.")

	return []process.FlagGroup{{Title: "Serving", Flags: serving}, {Title: "Shard", Flags: shard}, {Title: "Engines", Flags: engines}}
}

// Validate says everything that is wrong with the flags.
func (o *Options) Validate() error {
	return errors.Join(o.validateServing(), o.validateShard(), o.validateEngines())
}

func (o *Options) validateServing() error {
	var errs []error
	if err := process.CheckAddress(o.GRPCAddress); err != nil {
		errs = append(errs, fmt.Errorf("--grpc-address: %w", err))
	}
	switch {
	case o.InsecureLoopback && !process.IsLoopback(o.GRPCAddress):
		errs = append(errs, fmt.Errorf("--insecure-loopback: --grpc-address %q is not a loopback address; give 127.0.0.1:port, or TLS files", o.GRPCAddress))
	case !o.InsecureLoopback && (o.TLS.Cert == "" || o.TLS.Key == "" || o.TLS.CA == ""):
		errs = append(errs, errors.New("--tls-cert-file, --tls-key-file and --tls-ca-file are all needed, or --insecure-loopback on a loopback address"))
	}
	if !o.InsecureLoopback && o.DeciderIdentity == "" {
		errs = append(errs, errors.New("--decider-identity: must not be empty"))
	}
	return errors.Join(errs...)
}

func (o *Options) validateShard() error {
	var errs []error
	if o.ShardName == "" {
		errs = append(errs, errors.New("--shard-name: must not be empty"))
	}
	if !(o.CapacityPerSecond > 0) || o.CapacityPerSecond > 1e6 {
		errs = append(errs, fmt.Errorf("--capacity-scrapes-per-second: %v is not above 0 and at most 1000000", o.CapacityPerSecond))
	}
	if o.LeaderlessTimeout < 0 {
		errs = append(errs, fmt.Errorf("--leaderless-timeout: %s is negative", o.LeaderlessTimeout))
	}
	return errors.Join(errs...)
}

func (o *Options) validateEngines() error {
	var errs []error
	if o.ScrapeTimeout < 10*time.Millisecond || o.ScrapeTimeout > time.Minute {
		errs = append(errs, fmt.Errorf("--scrape-timeout: %s is not from 10ms to 1m", o.ScrapeTimeout))
	}
	if n := o.MaxScrapeBytes.Value(); n < 1<<10 || n > 1<<30 {
		errs = append(errs, fmt.Errorf("--max-scrape-bytes: %s is not from 1Ki to 1Gi", o.MaxScrapeBytes.String()))
	}
	if o.MaxPodsPerRole < 1 || o.MaxPodsPerRole > 1024 {
		errs = append(errs, fmt.Errorf("--max-pods-per-role: %d is not from 1 to 1024", o.MaxPodsPerRole))
	}
	if d := scrape.DataParallel(o.DataParallel); d != scrape.Sum && d != scrape.RankZero {
		errs = append(errs, fmt.Errorf("--data-parallel: %q is neither %s nor %s", o.DataParallel, scrape.Sum, scrape.RankZero))
	}
	if err := o.EngineTLS.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--engine-cert-file, --engine-key-file: %w", err))
	}
	if o.EngineInsecureSkipVerify && o.EngineBearerTokenFile != "" {
		errs = append(errs, errors.New("--engine-bearer-token-file: the token would never be sent with --engine-tls-insecure-skip-verify; give --engine-ca-file instead"))
	}
	return errors.Join(errs...)
}
