package harness

import (
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// connect makes the administrator's clients, generous with requests.
func (c *Cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst, config.WarningHandler = 500, 1000, rest.NoWarnings{}
	c.Config = config
	if c.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	return nil
}

// User gives a client that acts as somebody else, with the rights that were granted to that name.
func (c *Cluster) User(name string) (dynamic.Interface, error) {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting as %s: %w", name, err)
	}
	return client, nil
}
