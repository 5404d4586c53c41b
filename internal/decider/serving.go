package decider

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/process"
	"gpustack.ai/model-deployment-scaler/internal/stream/observations"
)

// ServingOptions of ObservationService. Its certificate is the decider's own.
type ServingOptions struct {
	GRPCAddress  string
	ServiceName  string
	ClientCAFile string
}

func (o *ServingOptions) flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("serving", pflag.ContinueOnError)
	fs.StringVar(&o.GRPCAddress, "grpc-address", o.GRPCAddress, "Host:port that observations are served on. Without a host, $POD_IP is what copies that stand by forward to.")
	fs.StringVar(&o.ServiceName, "service-name", o.ServiceName, "DNS name of this service: in the certificate of every copy, and the audience of tokens that are accepted.")
	fs.StringVar(&o.ClientCAFile, "client-ca-file", o.ClientCAFile, "Authorities (PEM `file`) of users' certificates: the common name is the user, organizations are groups. Reloaded when it changes. Default: tokens only.")
	return fs
}

func (o *ServingOptions) validate(insecure bool) error {
	var errs []error
	if err := process.CheckAddress(o.GRPCAddress); err != nil {
		errs = append(errs, fmt.Errorf("--grpc-address: %w", err))
	} else if insecure && !process.IsLoopback(o.GRPCAddress) {
		errs = append(errs, fmt.Errorf("--insecure-loopback: --grpc-address %s is not a loopback address", o.GRPCAddress))
	}
	if insecure && o.ClientCAFile != "" {
		errs = append(errs, errors.New("--client-ca-file: cannot be used with --insecure-loopback, which asks for no certificate"))
	}
	if !insecure {
		errs = append(errs, process.Require("--service-name", o.ServiceName, ""))
	}
	return errors.Join(errs...)
}

// listen opens the port of ObservationService and completes the identity of this copy by its address, so that who sees the
// holder of the Lease knows where it is.
func (d *decider) listen(ctx context.Context) (err error) {
	if d.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", d.options.GRPCAddress); err != nil {
		return fmt.Errorf("listening on --grpc-address: %w", err)
	}
	host, _, _ := net.SplitHostPort(d.options.GRPCAddress)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = os.Getenv("POD_IP")
	}
	if host == "" {
		return nil // forwarding copies say what is missing
	}
	_, port, _ := net.SplitHostPort(d.listener.Addr().String())
	d.identity += "@" + net.JoinHostPort(host, port)
	return nil
}

// leader reads what the holder of the Lease says of itself.
func (d *decider) leader() observations.Leader {
	holder := d.election.Leader()
	l := observations.Leader{Identity: holder}
	if at := strings.LastIndexByte(holder, '@'); at >= 0 {
		l.Address = holder[at+1:]
	}
	return l
}

// newObservations makes this copy's ObservationService. Callers are authorised by the API server; on insecure loopback by
// nobody.
func (d *decider) newObservations() (*observations.Server, error) {
	o := observations.Options{Identity: d.identity, Leader: d.leader, Log: d.process.Log, Registerer: d.process.Registry}
	if d.certs == nil {
		return observations.NewServer(o), nil
	}
	config, err := kube.LoadConfig(d.options.Kubeconfig)
	if err != nil {
		return nil, err
	}
	reviewer, err := kube.NewReviewer(config, d.options.ServiceName)
	if err != nil {
		return nil, err
	}
	o.Server, o.Client = d.certs.ServerAsking(), d.certs.Client(d.options.ServiceName)
	o.Access = &observations.AccessOptions{Audience: d.options.ServiceName, Copies: d.isCopy, Reviewer: reviewer}
	if d.options.ClientCAFile == "" {
		return observations.NewServer(o), nil
	}
	if d.people, err = certs.Load(certs.Files{CA: d.options.ClientCAFile}, d.process.Log); err != nil {
		return nil, fmt.Errorf("--client-ca-file: %w", err)
	}
	o.Access.People = d.people.VerifyClient
	return observations.NewServer(o), nil
}

// isCopy accepts the certificate of another copy of the decider: of our own authority, for our own name.
func (d *decider) isCopy(chain []*x509.Certificate) error {
	if err := d.certs.VerifyClient(chain); err != nil {
		return err
	}
	return certs.AllowNames(d.options.ServiceName)(chain[0])
}

// shown is what a pass tells to those who watch.
func (l *leader) shown(v *view, d decide.Decision, outcome decide.Outcome) observations.Pass {
	p := observations.Pass{
		Namespace: v.name.Namespace, Scaler: v.name.Name, Hold: d.Hold,
		Time: time.Now().Add(-l.clock.now().Sub(v.in.Now)),
	}
	if outcome.Written && d.Commit != nil {
		p.DecisionID = d.Commit.Decision.DecisionID
	}
	for _, role := range d.State.Roles {
		r := observations.Role{
			Name: role.Name, Current: role.Current, Ready: role.Ready, Raw: role.Raw, Constrained: role.Constrained,
			Signal: role.Signal, Reason: role.Reason, Trace: d.Trace[role.Name],
		}
		if o, found := v.in.Observations[role.Name]; found {
			r.Observation, r.Shard = &o, l.readings.shardOf(o.Key)
		}
		p.Roles = append(p.Roles, r)
	}
	return p
}
