package harness

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gpustack.ai/model-deployment-scaler/dev/controlplane"
	"gpustack.ai/model-deployment-scaler/dev/fleet"
	"gpustack.ai/model-deployment-scaler/dev/runner"
)

// Namespace of the system, and prefix of its images' names.
const Namespace = "model-deployment-scaler"

// Components are the programs, each a binary in bin/.
var Components = []string{"sampler", "decider", "webhook"}

// Options of a Cluster; the zero value is good.
type Options struct {
	// Fleet changes the options of the simulated engines.
	Fleet func(*fleet.Options)
	// Progress is told what happens next.
	Progress func(step string)
	// Durable keeps the API server's data for as long as the Cluster runs, so that RestartPlane can restart it.
	Durable bool
	// More are programs of bin/ besides Components, for Deployments whose image Programs changed to theirs.
	More []string
	// Programs changes the Deployments before their Pods are started.
	Programs func([]*appsv1.Deployment)
	// Server gives the API server that the program of a Pod is told of; without it, and where it gives nil, the real one.
	Server func(pod string, real *rest.Config) (*clientcmdapi.Cluster, error)
}

// Cluster is the running system.
type Cluster struct {
	// Kubeconfig is a file with an administrator's rights; Config, Kube and Dynamic have them too.
	Kubeconfig string
	Config     *rest.Config
	Kube       kubernetes.Interface
	Dynamic    dynamic.Interface
	// Runner runs the three programs, Fleet the engines.
	Runner *runner.Runner
	Fleet  *fleet.Fleet

	o      Options
	plane  *controlplane.Process // nil before it was started
	dir    string
	mapper meta.RESTMapper
	cancel context.CancelFunc
	ctx    context.Context // ends when something failed, or the caller's context
	group  *errgroup.Group
}

// Start brings the system up. It runs until ctx ends; Stop must be called to wait for the end.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	c := &Cluster{o: o}
	ctx, c.cancel = context.WithCancel(ctx)
	c.group, c.ctx = errgroup.WithContext(ctx)
	if err := c.start(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start() error {
	steps := []struct {
		name string
		do   func() error
	}{
		{"looking for the binaries", c.findBinaries},
		{"starting etcd and kube-apiserver", c.startPlane},
		{"applying the definitions", c.applyDefinitions},
		{"applying the manifests", c.applyManifests},
		{"starting the simulated engines", c.startFleet},
		{"starting samplers, deciders and webhook", c.startPrograms},
		{"waiting for a leader and the webhook", c.awaitReady},
	}
	for _, step := range steps {
		c.o.Progress(step.name)
		if err := step.do(); err != nil {
			return err
		}
	}
	return nil
}

// findBinaries says early, and all at once, what `make build` has not built.
func (c *Cluster) findBinaries() (err error) {
	for _, name := range slices.Concat([]string{"devcluster"}, Components, c.o.More) {
		_, missing := controlplane.Binary(name)
		err = errors.Join(err, missing)
	}
	if err != nil {
		return err
	}
	if c.dir, err = os.MkdirTemp("", "model-deployment-scaler-"); err != nil {
		return fmt.Errorf("making a folder for logs and certificates (is the disk full?): %w", err)
	}
	return nil
}

func (c *Cluster) startPlane() error {
	var flags []string
	if c.o.Durable {
		flags = []string{"--data-dir", filepath.Join(c.dir, "devcluster")}
	}
	plane, err := controlplane.Start(c.ctx, flags...)
	if err != nil {
		return err
	}
	c.plane, c.Kubeconfig = plane, plane.Kubeconfig
	c.group.Go(func() error {
		select {
		case <-c.ctx.Done():
			return nil
		case <-plane.Exited():
			return errors.New("devcluster ended while it was in use")
		}
	})
	return c.connect()
}

func (c *Cluster) startFleet() error {
	prefix, err := netip.ParsePrefix(c.plane.Block + ".128.0/17")
	if err != nil {
		return fmt.Errorf("finding addresses for engines: %w", err)
	}
	o := fleet.NewOptions(c.Config, prefix)
	if c.o.Fleet != nil {
		c.o.Fleet(&o)
	}
	if c.Fleet, err = fleet.New(o); err != nil {
		return err
	}
	c.group.Go(func() error { return c.Fleet.Run(c.ctx) })
	return nil
}

// ErrUnclean is in every error of Stop: a part failed while it ran, or did not end in order.
var ErrUnclean = errors.New("the system failed or did not stop in order")

// Done is closed when the system has failed, or its context ended.
func (c *Cluster) Done() <-chan struct{} { return c.ctx.Done() }

// Stop ends programs and engines, then the API server, and removes what is on disk. It returns what failed at any time.
func (c *Cluster) Stop() error {
	c.cancel()
	err := c.group.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil // the end of the context, met in the middle of a call
	}
	if c.plane != nil {
		err = errors.Join(err, c.plane.Stop())
	}
	if c.dir != "" {
		err = errors.Join(err, os.RemoveAll(c.dir))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnclean, err)
	}
	return nil
}

func (c *Cluster) path(elements ...string) (string, error) {
	root, err := controlplane.Root()
	return filepath.Join(append([]string{root}, elements...)...), err
}
