package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// startControlPlane starts etcd and kube-apiserver: one process of this
// binary, or two from the assets folder.
func (c *cluster) startControlPlane(ctx context.Context) error {
	if c.options.UseAssets {
		return c.startAssets(ctx, os.Getenv(assetsVariable))
	}
	arguments := append([]string{c.etcdConfigFile()}, c.layout.apiServerArguments()...)
	p, err := c.startSelf("control-plane", "control-plane", arguments)
	if err != nil {
		return err
	}
	if err := c.await(ctx, p, etcdName, c.probe.etcd); err != nil {
		return err
	}
	return c.await(ctx, p, apiServerName, c.probe.apiServer)
}

func (c *cluster) startAssets(ctx context.Context, dir string) error {
	etcd, err := c.startProcess(etcdName, []string{filepath.Join(dir, "etcd"), "--config-file", c.etcdConfigFile()})
	if err != nil {
		return err
	}
	if err := c.await(ctx, etcd, etcdName, c.probe.etcd); err != nil {
		return err
	}
	argv := append([]string{filepath.Join(dir, "kube-apiserver")}, c.layout.apiServerArguments()...)
	server, err := c.startProcess(apiServerName, argv)
	if err != nil {
		return err
	}
	return c.await(ctx, server, apiServerName, c.probe.apiServer)
}

func (c *cluster) startControllerManager(ctx context.Context) error {
	p, err := c.startSelf(controllerManagerName, "controller-manager", c.layout.controllerManagerArguments())
	if err != nil {
		return err
	}
	return c.await(ctx, p, controllerManagerName, c.probe.controllerManager)
}

// startSelf starts this binary again, as one of its components.
func (c *cluster) startSelf(name, component string, arguments []string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return c.startProcess(name, append([]string{self, component}, arguments...))
}

func (c *cluster) startProcess(name string, argv []string) (*process, error) {
	p, err := startProcess(c.logDir, name, argv)
	if err == nil {
		c.processes = append(c.processes, p)
	}
	return p, err
}

func (c *cluster) await(ctx context.Context, p *process, name string, check func(context.Context) error) error {
	if err := await(ctx, p, name, check); err != nil {
		return err
	}
	c.say("%s ready", name)
	return nil
}
