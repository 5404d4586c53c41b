package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// answerTimeout bounds one request to the cluster.
const answerTimeout = 15 * time.Second

// clusterFlags say where the cluster is, by kubectl's rules.
type clusterFlags struct{ kubeconfig, context, namespace string }

func (c *clusterFlags) add(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "Kubeconfig `file`. Default: what kubectl takes.")
	f.StringVar(&c.context, "context", "", "Context of the kubeconfig.")
	f.StringVarP(&c.namespace, "namespace", "n", "", "Namespace. Default: that of the context.")
}

// args lead kubectl to the same cluster; each ends with a space.
func (c *clusterFlags) args() (args string) {
	if c.kubeconfig != "" {
		args += "--kubeconfig " + c.kubeconfig + " "
	}
	if c.context != "" {
		args += "--context " + c.context + " "
	}
	return args
}

// loader reads the kubeconfig by kubectl's rules.
func (c *clusterFlags) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.context}
	overrides.Context.Namespace = c.namespace
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
}

// deployment reads a ModelDeployment, in the first version that the cluster serves.
func (c *clusterFlags) deployment(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	loader := c.loader()
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster (or name a manifest with -f): %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("finding the namespace: %w", err)
	}
	config.Timeout = answerTimeout
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	for _, version := range workerv1.Versions {
		var object *unstructured.Unstructured
		where := schema.GroupVersionResource{Group: target.GroupName, Version: version, Resource: target.Resource}
		if object, err = client.Resource(where).Namespace(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			return object, nil
		}
		if !apierrors.IsNotFound(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
			break // the version is served: what it says holds
		}
	}
	return nil, fmt.Errorf("reading %s %s/%s: %w", target.Kind, namespace, name, err)
}
