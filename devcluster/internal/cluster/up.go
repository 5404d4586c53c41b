package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Grace periods of the stop: together below the ten seconds that callers wait.
const (
	controllerManagerGrace = 2 * time.Second
	controlPlaneGrace      = 6 * time.Second
)

// cluster is one run of "devcluster up".
type cluster struct {
	options    Options
	out        io.Writer
	began      time.Time
	data       *dataDir
	claim      *claim
	layout     layout
	probe      *probe
	logDir     string
	kubeconfig string
	processes  []*process // in the order they were started
}

// Run starts a cluster, says so on out, and stops it when the stop context
// ends; the end of the kill context stops waiting for an orderly stop. It
// fails when the cluster cannot be started or a component ends by itself.
func Run(stop, kill context.Context, out io.Writer, o Options) error {
	c := &cluster{options: o, out: out, began: time.Now()}
	err := c.start(stop)
	if err == nil {
		err = c.wait(stop)
	}
	if errors.Is(err, context.Canceled) {
		err = nil // stopped while starting
	}
	if err != nil {
		err = explain(err) // reads logs that stopping may remove
	}
	return errors.Join(err, c.stop(kill))
}

func (c *cluster) start(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	c.say("block %s: services %s, pods %s", c.claim.Block, c.claim.ServiceCIDR(), c.claim.PodCIDR())
	if err := c.startControlPlane(ctx); err != nil {
		return err
	}
	if err := c.startControllerManager(ctx); err != nil {
		return err
	}
	if err := c.writeReadyFile(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.out, "export KUBECONFIG=%s\n", c.kubeconfig)
	return err
}

// prepare claims the block and writes everything the components read.
func (c *cluster) prepare(ctx context.Context) error {
	var err error
	if c.data, err = openDataDir(c.options.DataDir); err != nil {
		return err
	}
	if c.claim, err = c.claimBlock(ctx); err != nil {
		return err
	}
	if err := c.data.setBlock(c.claim.Block); err != nil {
		return err
	}
	if c.logDir = c.options.LogDir; c.logDir == "" {
		c.logDir = c.data.join("logs")
	}
	if err := os.MkdirAll(c.logDir, 0o700); err != nil {
		return fmt.Errorf("creating log directory: %w", err)
	}
	return c.writeConfiguration()
}

// claimBlock takes the block that the options or kept data name.
func (c *cluster) claimBlock(ctx context.Context) (*claim, error) {
	kept, err := c.data.block()
	if err != nil {
		return nil, err
	}
	wanted := Block(c.options.Block)
	if kept != 0 && wanted != 0 && kept != wanted {
		return nil, fmt.Errorf("--block: the data in %s belongs to block %s and cannot move to %s", c.data.path, kept, wanted)
	}
	return claimBlock(ctx, max(kept, wanted))
}

func (c *cluster) writeConfiguration() error {
	p, err := createPKI(c.data.join("pki"), c.claim.Block)
	if err != nil {
		return err
	}
	c.layout = layout{
		Block:              c.claim.Block,
		pki:                p,
		etcdDir:            c.data.join("etcd"),
		controllerManagers: c.data.join("controller-manager.kubeconfig"),
		verbosity:          c.options.Verbosity,
		throwAway:          c.data.temporary && !c.options.Keep,
	}
	if c.kubeconfig, err = c.kubeconfigPath(); err != nil {
		return err
	}
	config, err := c.layout.etcdConfig()
	if err != nil {
		return fmt.Errorf("writing etcd configuration: %w", err)
	}
	if c.probe, err = newProbe(c.claim.Block, p); err != nil {
		return fmt.Errorf("loading the administrator's certificate: %w", err)
	}
	return errors.Join(
		writeFile(c.etcdConfigFile(), config, 0o600),
		writeKubeconfig(c.layout.controllerManagers, c.claim.Block, p, controllerManagerName),
		writeKubeconfig(c.kubeconfig, c.claim.Block, p, adminName),
	)
}

func (c *cluster) etcdConfigFile() string { return c.data.join("etcd.yaml") }

func (c *cluster) kubeconfigPath() (string, error) {
	if c.options.Kubeconfig == "" {
		return c.data.join("kubeconfig"), nil
	}
	return filepath.Abs(c.options.Kubeconfig)
}

// wait returns when the context ends, or an error when a component does.
func (c *cluster) wait(ctx context.Context) error {
	failed := make(chan error, len(c.processes))
	for _, p := range c.processes {
		go func() {
			<-p.done
			failed <- p.ended()
		}()
	}
	select {
	case <-ctx.Done():
		c.say("stopping")
		return nil
	case err := <-failed:
		return err
	}
}

// stop ends the components, last started first, and removes what is not to
// be kept.
func (c *cluster) stop(kill context.Context) error {
	for i := len(c.processes) - 1; i >= 0; i-- {
		grace := controlPlaneGrace
		if c.processes[i].name == controllerManagerName {
			grace = controllerManagerGrace
		}
		c.processes[i].stop(kill, grace)
	}
	var errs []error
	if c.options.ReadyFile != "" {
		errs = append(errs, removeFile(c.options.ReadyFile))
	}
	if c.claim != nil {
		errs = append(errs, c.claim.release())
	}
	if c.data != nil {
		errs = append(errs, c.discardData())
	}
	return errors.Join(errs...)
}

func (c *cluster) discardData() error {
	remove := c.data.temporary && !c.options.Keep
	if !remove {
		c.say("data kept in %s", c.data.path)
		return c.data.close(false)
	}
	var err error
	if c.kubeconfig != "" {
		err = removeFile(c.kubeconfig)
	}
	return errors.Join(err, c.data.close(true))
}

// Ready is the content of the ready file.
type Ready struct {
	Kubeconfig  string `json:"kubeconfig"`
	Block       string `json:"block"` // "127.K"
	ServiceCIDR string `json:"serviceCIDR"`
	PodCIDR     string `json:"podCIDR"`
	PID         int    `json:"pid"` // of "devcluster up"
}

func (c *cluster) writeReadyFile() error {
	if c.options.ReadyFile == "" {
		return nil
	}
	b := c.claim.Block
	content, err := json.Marshal(Ready{
		Kubeconfig: c.kubeconfig, Block: b.String(),
		ServiceCIDR: b.ServiceCIDR(), PodCIDR: b.PodCIDR(), PID: os.Getpid(),
	})
	if err != nil {
		return fmt.Errorf("writing ready file: %w", err)
	}
	return writeFile(c.options.ReadyFile, append(content, '\n'), 0o600)
}

// say prints one step with the seconds since the start.
func (c *cluster) say(format string, args ...any) {
	fmt.Fprintf(c.out, "%5.1fs  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}
