package harness

import (
	"context"
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	if c.block == "" {
		c.block, err = c.findBlock()
	}
	return err
}

// findBlock tells the loopback block of a devcluster that was not started here by the address of a Service.
func (c *Cluster) findBlock() (string, error) {
	service, err := c.Kube.CoreV1().Services("default").Get(c.ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("looking for the cluster's addresses: %w", err)
	}
	ip, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil || !ip.Is4() || !ip.IsLoopback() {
		return "", fmt.Errorf("looking for the cluster's addresses: its Services are at %s, where no local process can serve: use a cluster of `bin/devcluster up`", service.Spec.ClusterIP)
	}
	return fmt.Sprintf("127.%d", ip.As4()[1]), nil
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

// unregister removes the webhook configurations: without a webhook they would refuse every guarded write.
func (c *Cluster) unregister() error {
	ctx, hooks := context.Background(), c.Kube.AdmissionregistrationV1()
	for _, remove := range []func(context.Context, string, metav1.DeleteOptions) error{
		hooks.MutatingWebhookConfigurations().Delete, hooks.ValidatingWebhookConfigurations().Delete,
	} {
		if err := remove(ctx, Namespace, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("removing a webhook configuration: %w", err)
		}
	}
	return nil
}
